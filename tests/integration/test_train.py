"""`tokenmill.train` from files to files: inputs, counts, resume, and every kind of bad input."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import reference
import tokenmill
from tokenmill.cli import main
from tokenmill.errors import (
    ConfigError,
    InputError,
    InputNotFoundError,
    InterruptedJobError,
    ResumeError,
)
from tokenmill.pipeline.train import run
from tokenmill.settings.resolve import from_options
from tokenmill.training.merging import format_lines

WORDS = "the lowest newer wider lower 한국어 문장 中文文本 don't 42 x_1 -- \n"
TEXTS = [WORDS * (3 + i % 5) + f"tail {i % 7}" for i in range(60)]


def expected(texts, vocab_size, tie_break="huggingface"):
    # One id of the size is <|endoftext|>'s, which every training has that is not told otherwise.
    return reference.train(reference.pieces_of(texts), vocab_size - 1, tie_break)


def merges(tokenizer):
    model = tokenizer.recipe.model
    return [(model.tokens[left], model.tokens[right]) for left, right in model.merges]


@pytest.fixture
def jsonl(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "kind", ["txt", "jsonl", "jsonl.gz", "parquet", "list", "arrow", "generator", "dataset"]
)
def test_every_kind_of_input_gives_the_same_merges(tmp_path, jsonl, kind):
    inputs = {
        "list": lambda: TEXTS,
        "arrow": lambda: pa.array(TEXTS),
        "generator": lambda: (text for text in TEXTS),
    }
    if kind == "txt":
        source = tmp_path / "in.txt"
        source.write_text("<|doc|>".join(TEXTS), encoding="utf-8")
        options = {"document_separator": "<|doc|>", "txt_mode": "separator"}
        tokenizer = tokenmill.train(source, 300, **options)
    elif kind in inputs:
        tokenizer = tokenmill.train_from_iterator(inputs[kind](), 300)
    elif kind == "dataset":
        datasets = pytest.importorskip("datasets")
        tokenizer = tokenmill.train_from_iterator(datasets.Dataset.from_dict({"text": TEXTS}), 300)
    else:
        path = tmp_path / f"made.{kind}"
        if kind == "parquet":
            pq.write_table(pa.table({"text": TEXTS}), path)
        else:
            path.write_bytes(gzip.compress(jsonl.read_bytes()) if kind.endswith("gz") else jsonl.read_bytes())
        tokenizer = tokenmill.train([path], 300)
    assert merges(tokenizer) == expected(TEXTS, 300)


def test_splits_of_a_dataset_are_documents_and_not_names():
    datasets = pytest.importorskip("datasets")
    splits = datasets.DatasetDict(
        train=datasets.Dataset.from_dict({"text": TEXTS[:40]}),
        test=datasets.Dataset.from_dict({"text": TEXTS[40:]}),
    )
    assert merges(tokenmill.train_from_iterator(splits, 300)) == expected(TEXTS, 300)
    assert merges(tokenmill.train_from_iterator(splits, 300, split="train")) == expected(TEXTS[:40], 300)
    with pytest.raises(InputNotFoundError, match="they have test, train"):
        tokenmill.train_from_iterator(splits, 300, split="dev")


@pytest.mark.parametrize("columns", [["text"], ["body", "n"]])
def test_a_dataset_that_is_streamed(columns):
    datasets = pytest.importorskip("datasets")
    rows = {columns[0]: TEXTS, **{name: list(range(len(TEXTS))) for name in columns[1:]}}
    streamed = datasets.Dataset.from_dict(rows).to_iterable_dataset()
    assert merges(tokenmill.train_from_iterator(streamed, 300)) == expected(TEXTS, 300)
    unknown = datasets.IterableDataset.from_generator(lambda: ({columns[0]: text, "n": 1} for text in TEXTS))
    assert merges(tokenmill.train_from_iterator(unknown, 300)) == expected(TEXTS, 300)


def test_columns_in_memory_are_documents():
    assert merges(tokenmill.train_from_iterator({"text": TEXTS, "n": list(range(60))}, 300)) == expected(
        TEXTS, 300
    )
    records = ({"title": "x", "text": text} for text in TEXTS)
    assert merges(tokenmill.train_from_iterator(records, 300)) == expected(TEXTS, 300)


@pytest.mark.parametrize("make", [pa.array, iter, lambda texts: ({"text": text} for text in texts)])
def test_missing_values_are_left_out_and_counted(make):
    given = make([TEXTS[0], None, *TEXTS[1:], None])
    trained = run(from_options(job="train", vocab_size=300), given, progress=False)
    assert merges(trained.tokenizer) == expected(TEXTS, 300)
    assert trained.summary["refused"] == {"missing_field": 2}
    assert trained.summary["documents"] == len(TEXTS)
    assert any("missing_field 2" in line for line in format_lines(trained.summary))


def test_refused_records_are_counted_wherever_they_are_read(tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "some words"}\n{broken\n' * 20, encoding="utf-8")
    counts = tmp_path / "counts.parquet"
    tokenmill.train(source, 260, on_error="skip", save_counts=counts)
    trained = run(from_options(job="train", vocab_size=260, counts=counts), progress=False)
    assert trained.summary["refused"] == {"broken_json": 20}


def test_counts_are_an_artefact(tmp_path, jsonl):
    first = tokenmill.train(jsonl, 280, save_counts=tmp_path / "a.parquet", threads=2)
    tokenmill.train(
        jsonl, 280, save_counts=tmp_path / "b.parquet", threads=1, memory_budget=1, spill_dir=tmp_path
    )
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    second = tokenmill.train(vocab_size=300, counts=tmp_path / "a.parquet", tie_break="lexicographic")
    assert merges(second) == expected(TEXTS, 300, "lexicographic")
    assert merges(first) == expected(TEXTS, 280)
    assert pq.read_table(tmp_path / "a.parquet").column_names == ["piece", "count"]


def test_counts_add_up_with_weights(tmp_path):
    tokenmill.train_from_iterator(TEXTS[:10], 260, save_counts=tmp_path / "a.parquet")
    tokenmill.train_from_iterator(TEXTS[10:13], 260, save_counts=tmp_path / "b.parquet")
    both = tokenmill.train(vocab_size=300, counts=[f"{tmp_path}/a.parquet:2.0", tmp_path / "b.parquet"])
    assert merges(both) == expected(TEXTS[:10] * 2 + TEXTS[10:13], 300)
    mixed = tokenmill.train_from_iterator(TEXTS[10:13], 300, counts=[(tmp_path / "a.parquet", 2)])
    assert merges(mixed) == merges(both)


def test_counts_of_another_pattern_or_special_token_are_refused(tmp_path):
    counts = tmp_path / "a.parquet"
    tokenmill.train_from_iterator(TEXTS, 260, save_counts=counts)
    with pytest.raises(ConfigError, match="counted with the pattern 'gpt2', not 'cl100k'"):
        tokenmill.train(vocab_size=300, counts=counts, pattern="cl100k")
    with pytest.raises(ConfigError, match="special tokens"):
        tokenmill.train(vocab_size=300, counts=counts, special_tokens=["<|x|>"])
    with pytest.raises(ConfigError, match="weight"):
        tokenmill.train(vocab_size=300, counts=f"{counts}:-1")
    counts.write_bytes(counts.read_bytes()[:100])
    with pytest.raises(InputError, match="not a complete counts file"):
        tokenmill.train(vocab_size=300, counts=counts)
    with pytest.raises(InputNotFoundError, match="save_counts"):
        tokenmill.train(vocab_size=300, counts=tmp_path / "absent.parquet")


def test_a_changed_byte_of_a_counts_file_is_noticed(tmp_path):
    counts = tmp_path / "a.parquet"
    tokenmill.train_from_iterator(TEXTS, 260, save_counts=counts)
    whole = counts.read_bytes()
    expected_merges = merges(tokenmill.train(vocab_size=300, counts=counts))
    silent = 0
    for place in range(3, len(whole), max(1, len(whole) // 150)):
        counts.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        words = words_of_failure(
            lambda: merges(tokenmill.train(vocab_size=300, counts=counts)), expected_merges
        )
        assert words is None or "a.parquet" in words, (place, words)
        silent += words is None  # bytes that change no count, such as the name of the writer
    assert silent < 60


def words_of_failure(work, expected):
    try:
        assert work() == expected
    except tokenmill.TokenmillError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"vocab_size": 256, "special_tokens": ["aa"]}, "vocab_size is 256; expected 257"),
        (
            {"vocab_size": 100},
            "vocab_size is 100; expected 257 .256 bytes and 1 special token; `special_tokens",
        ),
        ({"vocab_size": 255, "special_tokens": ()}, "vocab_size is 255; expected 256"),
        ({"vocab_size": 300, "special_tokens": ["aa", "bb", "aa"]}, "'aa' is listed twice"),
        ({"vocab_size": 300, "special_tokens": [""]}, "is empty"),
        ({"vocab_size": 300, "special_tokens": ["a"]}, "single byte"),
        ({"vocab_size": 300, "pattern": "(unclosed"}, "pattern"),
        ({"vocab_size": 300, "tie_break": "random"}, "tie_break"),
        ({"vocab_size": 300, "min_frequency": -1}, "min_frequency"),
        ({"vocab_size": 300, "threads": 0}, "threads"),
        ({"vocab_size": 300, "held_out": 1.5}, "held_out"),
        ({"vocab_size": 300, "resume": True}, "resume needs an output"),
    ],
)
def test_bad_settings_are_refused(options, words):
    with pytest.raises(ValueError, match=words) as caught:
        tokenmill.train_from_iterator(TEXTS, **options)
    assert isinstance(caught.value, tokenmill.TokenmillError)


def test_bad_inputs_are_refused(tmp_path):
    output = tmp_path / "out"
    with pytest.raises(InputError, match="nothing to train on"):
        tokenmill.train([], 300, output=output)
    with pytest.raises(InputNotFoundError, match="no such file"):
        tokenmill.train([tmp_path / "absent.txt"], 300, output=output)
    for inputs in ([TEXTS[0] * 50], TEXTS[0] * 50):
        with pytest.raises(InputNotFoundError, match=r"looks like a text.*train_from_iterator") as caught:
            tokenmill.train(inputs, 300)
        assert len(str(caught.value)) < 500
    with pytest.raises(InputError, match=r":2:\d+: a record that is not an object: '3'"):
        tokenmill.train_from_iterator(["a", 3], 300)
    with pytest.raises(InputError, match="lone surrogate"):
        tokenmill.train_from_iterator(["a\ud800"], 300)
    half = tmp_path / "half.jsonl.gz"
    whole = gzip.compress(b'{"text": "some words"}\n' * 50_000)
    half.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"half\.jsonl\.gz"):
        tokenmill.train(half, 300, output=output)
    assert {path.name for path in output.iterdir()} == {"progress.json"}
    assert json.loads((output / "progress.json").read_text(encoding="utf-8"))["state"] == "failed"


def test_a_full_disk_while_spilling_is_a_clear_error(tmp_path):
    code = """
import resource, sys, tokenmill
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
words = (f"w{i}q{i * 7919}" for i in range(20000))
try:
    tokenmill.train_from_iterator([" ".join(words)], 300, memory_budget=1, spill_dir=sys.argv[1], threads=1)
except tokenmill.TokenmillError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert InterruptedJobError.__name__ in done.stderr
    assert "spill_dir" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="sends SIGKILL to one process")
@pytest.mark.parametrize("place", ["output", "spill_dir"])
def test_a_folder_of_counts_goes_with_the_next_training(tmp_path, place):
    code = """
import os, signal, sys, tokenmill

def die(stage, done, total):
    if stage == "merging" and sys.argv[3] == "die":
        assert list(os.scandir(sys.argv[2]))
        os.kill(os.getpid(), signal.SIGKILL)

words = (f"w{i}q{i * 7919}" for i in range(20000))
options = {"memory_budget": 1, "threads": 1, sys.argv[1]: sys.argv[2]}
tokenmill.train_from_iterator([" ".join(words)], 300, progress=die, **options)
"""
    folder = tmp_path / "place"
    for fate, code_of_end in (("die", -signal.SIGKILL), ("live", 0)):
        command = [sys.executable, "-c", code, place, folder, fate]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code_of_end, done.stderr
        left = [path.name for path in folder.glob(".*")]
        assert bool(left) == (fate == "die"), left


def read_steps(output):
    return json.loads((output / ".training" / "steps.json").read_bytes())["steps"]


def test_an_interrupted_training_goes_on(tmp_path, jsonl):
    output = tmp_path / "out"
    seen = []

    def stop_midway(stage, done, total):
        seen.append((stage, done, total))
        if stage == "merging" and done >= 16:
            raise KeyboardInterrupt

    options = {"output": output, "checkpoint_every": 8}
    with pytest.raises(KeyboardInterrupt):
        tokenmill.train(jsonl, 300, progress=stop_midway, **options)
    assert not (output / "tokenizer.json").exists()
    assert len(read_steps(output)) >= 16
    with pytest.raises(ResumeError, match="options differ"):
        tokenmill.train(jsonl, 310, resume=True, **options)
    tokenizer = tokenmill.train(jsonl, 300, resume=True, **options)
    assert merges(tokenizer) == expected(TEXTS, 300)
    assert not (output / ".training").exists()
    assert seen[0][0] == "counting"


def test_an_interrupted_training_on_objects_goes_on_with_the_same_ones_only(tmp_path):
    def stop_midway(stage, done, total):
        if stage == "merging" and done >= 16:
            raise KeyboardInterrupt

    options = {"output": tmp_path / "out", "checkpoint_every": 8}
    with pytest.raises(KeyboardInterrupt):
        tokenmill.train_from_iterator(TEXTS, 300, progress=stop_midway, **options)
    with pytest.raises(ResumeError, match="other documents"):
        tokenmill.train_from_iterator(TEXTS[1:], 300, resume=True, **options)
    path = tmp_path / "out" / ".training" / "steps.json"
    whole = path.read_bytes()
    bad = [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(0, len(whole), 7)]
    for content in [*bad, b"[]", b"{}", b"{", whole[:40]]:
        path.write_bytes(content)
        with pytest.raises(ResumeError, match=r"steps\.json"):
            tokenmill.train_from_iterator(TEXTS, 300, resume=True, **options)
    path.write_bytes(whole)
    tokenizer = tokenmill.train_from_iterator(TEXTS, 300, resume=True, **options)
    assert merges(tokenizer) == expected(TEXTS, 300)


def test_ctrl_c_ends_a_command_with_75_and_it_resumes(tmp_path):
    texts = [" ".join(f"w{i * 48271 % 99991:x}{j}" for i in range(3000)) for j in range(200)]
    source = tmp_path / "in.txt"
    source.write_text("\n".join(texts), encoding="utf-8")
    output = tmp_path / "out"
    command = [sys.executable, "-m", "tokenmill", "train", str(source), "--vocab-size", "60000"]
    command += ["-o", str(output), "--checkpoint-every", "50", "--quiet", "--threads", "1"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for _ in range(600):
        if (output / ".training" / "steps.json").exists() or running.poll() is not None:
            break
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, words = running.communicate(timeout=60)
    assert running.returncode == 75, words
    assert "interrupted" in words
    assert not (output / "tokenizer.json").exists()
    steps = read_steps(output)
    again = [*command, "--resume", "--checkpoint-every", "100000"]  # a file for every 50 merges takes long
    done = subprocess.run(again, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = (output / "tokenizer.json").read_text(encoding="utf-8")
    assert len(json.loads(lines)["model"]["merges"]) > len(steps) // 2


def test_the_command_tells_and_saves(tmp_path, jsonl, capsys):
    output = tmp_path / "out"
    arguments = ["train", str(jsonl), "--vocab-size", "300", "-o", str(output), "--quiet"]
    arguments += ["--special-token", "<|end|>"]
    main([*arguments, "--json", "--held-out", "0.2", "--save-as", "all"])
    told = json.loads(capsys.readouterr().out)
    assert told["vocab_size"] == 300
    assert 0 < told["documents"] < len(TEXTS)
    assert told["sample"] == "held out"
    assert told["bytes_per_token"] > 1
    assert told["seconds"].keys() == {"counting", "merging", "total"}
    kept = json.loads((output / "training.json").read_text(encoding="utf-8"))
    assert kept["job"]["inputs"][0]["url"].endswith("in.jsonl")
    assert kept["fingerprint"] == tokenmill.Tokenizer.load(output).fingerprint
    main(arguments)
    assert "bytes per token" in capsys.readouterr().out


def test_missing_texts_are_logged_and_no_progress_is_silent(caplog):
    caplog.set_level("INFO")
    texts = pa.chunked_array([["low lower lowest"] * 20, [None, None]])
    tokenmill.train_from_iterator(texts, 260, progress=False)
    assert [record.getMessage() for record in caplog.records] == ["Records refused: 2 (missing_field 2)"]
    caplog.clear()
    tokenmill.train_from_iterator(["low lower lowest"] * 20, 260, progress=False)
    assert caplog.records == []
