"""Settings that users already have, run as they stand: YAML files, environment blocks, strategies."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tokenmill
from small_tokenizers import write_bpe, write_word_piece
from tokenmill.tokenizer.tokenizer import Tokenizer

FILES = Path(__file__).parents[1] / "unit" / "config" / "files"
ENVIRONMENTS = sorted((Path(__file__).parent / "environments").glob("*.sh"))
TEXTS = [
    f"the document {number} 안녕하세요 in there, the other\n" * (1 + number % 40) for number in range(300)
]
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("TOKENMILL_", "DATASET_", "RAYON_", "OMP_", "TOKENIZERS_"))
} | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A working directory with a corpus, and the tokenizers under the names that the files use."""
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in TEXTS]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_bpe(tmp_path / "meta-llama" / "Llama-2-7b-hf")
    write_word_piece(tmp_path / "some-custom-tokenizer")
    return tmp_path


def run(*arguments, cwd, shell_lines=""):
    quoted = " ".join(f"'{argument}'" for argument in arguments)
    script = f"set -a\n{shell_lines}\n'{sys.executable}' -m tokenmill {quoted}"
    return subprocess.run(
        ["sh", "-c", script], cwd=cwd, env=CLEAN, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("name", "context_length", "overlap", "strategy"),
    [("automatic", 4096, 256, "native"), ("manual", 2048, 128, "huggingface"), ("debug", 1024, 64, "native")],
)
def test_yaml_files_run_as_they_stand(home, name, context_length, overlap, strategy):
    done = run("prepare", "corpus.jsonl", "--config", FILES / f"{name}.yaml", "--output", "out", cwd=home)
    assert done.returncode == 0, done.stderr
    view = tokenmill.open(home / "out").manifest.packing.view
    assert (view.packing, view.context_length, view.overlap) == ("separate", context_length, overlap)
    assert "Performance configuration: batch_size=" in done.stderr
    assert re.search(r"Completed tokenizing split 'train' in \d+\.\d\d seconds", done.stderr)
    assert re.search(r"Processed 300 examples at \d+\.\d examples/sec", done.stderr)
    assert {"native": "Using native tokenizer", "huggingface": "Using Fast Tokenizer"}[
        strategy
    ] in done.stderr
    if name != "automatic":
        assert "is ignored" not in done.stderr


@pytest.mark.parametrize("block", ENVIRONMENTS, ids=lambda path: path.stem)
def test_environment_blocks_run_as_they_stand(home, block):
    lines = block.read_text(encoding="utf-8")
    done = run(
        "prepare",
        "corpus.jsonl",
        "--tokenizer",
        "meta-llama/Llama-2-7b-hf",
        "--output",
        "out",
        cwd=home,
        shell_lines=lines,
    )
    assert done.returncode == 0, done.stderr
    given = dict(re.findall(r"(\w+)=(\w+)", lines))
    if "DATASET_BATCH_SIZE" in given:
        assert f"batch_size={given['DATASET_BATCH_SIZE']}," in done.stderr
    threads = "1" if given.get("TOKENIZERS_PARALLELISM") == "false" else None
    threads = threads or given.get("RAYON_NUM_THREADS") or given.get("RAYON_RS_NUM_THREADS")
    if threads:
        assert f"threads={threads}," in done.stderr
    assert tokenmill.open(home / "out").num_documents == len(TEXTS)


def test_one_corpus_through_every_strategy_gives_the_same_ids(home):
    found = {}
    for strategy in ("native", "huggingface", "fast"):  # the last one is the name of transformers
        names = ("--tokenizer", "meta-llama/Llama-2-7b-hf", "--output", strategy, "--strategy", strategy)
        done = run("prepare", "corpus.jsonl", *names, cwd=home)
        assert done.returncode == 0, done.stderr
        found[strategy] = tokenmill.open(home / strategy).manifest.content_hash
    assert found["native"] == found["huggingface"] == found["fast"]


class Bytes:
    """A user's own tokenizer."""

    vocab_size = 256

    def __call__(self, text):
        return list(text.encode())


def test_a_class_of_the_users_own(home):
    dataset = tokenmill.prepare(inputs="corpus.jsonl", tokenizer=Bytes(), output="out", verbose_level="ERROR")
    assert bytes(np.asarray(dataset[3]).tolist()).decode() == TEXTS[3]


def test_transformers_objects_and_directories(home):
    transformers = pytest.importorskip("transformers")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file="meta-llama/Llama-2-7b-hf/tokenizer.json")
    assert Tokenizer.load(fast).strategy.name == "native"
    transformers.ByT5Tokenizer().save_pretrained(home / "byt5")
    loaded = Tokenizer.load(home / "byt5")
    assert loaded.strategy.name == "python"
    assert not loaded.is_fast
    assert loaded.encode_batch(["ab"], special="text").to_lists() == [[100, 101]]


def test_a_tokenizer_named_in_a_file_is_told_with_its_line(home):
    (home / "job.yaml").write_text("# mine\ntokenizer:\n  tokenizer_name: ./gone\n", encoding="utf-8")
    done = run("prepare", "corpus.jsonl", "--config", "job.yaml", "--output", "out", cwd=home)
    assert done.returncode == 2
    assert "job.yaml:3: tokenizer.tokenizer_name: ./gone" in done.stderr
