"""The command as users run it: exit codes, signals, a full disk, and every kind of bad input."""

import errno
import fcntl
import gzip
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
import tracemalloc

import pytest
from click.testing import CliRunner
from test_determinism import tree_hash, write_corpus

import tokenmill
from byte_tokenizer import ByteTokenizer
from tokenmill.base.durable import DurableFile
from tokenmill.cli.dataset import convert as convert_command
from tokenmill.cli.dataset import verify as verify_command
from tokenmill.errors import InputError, InterruptedJobError


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A real tokenizer on disk: the 256 bytes and nothing merged."""
    from tokenmill._core import spell

    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    vocabulary = {spell(bytes([byte])): byte for byte in range(256)} | {"<|endoftext|>": 256}
    special = {"id": 256, "content": "<|endoftext|>", "special": True, "single_word": False}
    special |= {"lstrip": False, "rstrip": False, "normalized": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    parts = {"version": "1.0", "added_tokens": [special], "normalizer": None, "post_processor": None}
    path.write_text(
        json.dumps(parts | {"pre_tokenizer": byte_level, "decoder": byte_level, "model": model}),
        encoding="utf-8",
    )
    return path


def tokenmill_command(*arguments, **options):
    command = [sys.executable, "-m", "tokenmill", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def test_the_whole_way(tmp_path, tokenizer):
    write_corpus(tmp_path / "a.jsonl", 100)
    output = tmp_path / "out"
    done = tokenmill_command(
        "prepare", tmp_path / "a.jsonl", "--tokenizer", tokenizer, "--output", output, "--json"
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["documents"] + summary["account"]["documents"]["dropped"].get("blank", 0) == 100
    assert "Text: field 'text'" in done.stderr
    assert "Completed tokenizing split 'train'" in done.stderr
    assert "\x1b" not in done.stderr
    again = tokenmill_command("prepare", tmp_path / "a.jsonl", "--tokenizer", tokenizer, "--output", output)
    assert "Nothing to do" in again.stderr
    verified = CliRunner().invoke(verify_command, [str(output), "--json"])
    assert verified.exit_code == 0, verified.output
    assert all(check["state"] == "ok" for check in json.loads(verified.output)["checks"])
    converted = CliRunner().invoke(convert_command, [str(output), str(tmp_path / "npy"), "--format", "npy"])
    assert converted.exit_code == 0, converted.output
    (
        output / json.loads((output / "manifest.json").read_text())["shards"][0]["files"][0]["path"]
    ).write_bytes(b"")
    broken = CliRunner().invoke(verify_command, [str(output)])
    assert broken.exit_code == 1
    assert "problem" in broken.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_within_seconds_and_resume(tmp_path, tokenizer, number):
    write_corpus(tmp_path / "a.jsonl", 40_000)
    arguments = ["prepare", tmp_path / "a.jsonl", "--tokenizer", tokenizer, "--threads", "2"]
    arguments += ["--unit-bytes", "200kB", "--no-parity-check", "--no-report", "--output"]
    output = tmp_path / "out"
    started = subprocess.Popen(
        [sys.executable, "-m", "tokenmill", *map(str, arguments), str(output), "--batch-size", "1"],
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list((output / "receipts").glob("*.json")):
        time.sleep(0.02)
    started.send_signal(number)
    asked = time.monotonic()
    _, said = started.communicate(timeout=30)
    assert time.monotonic() - asked < 15
    assert started.returncode == 75, said
    assert b"run the same command again" in said
    assert not (output / "manifest.json").exists()
    resumed = tokenmill_command(*arguments, output)
    assert resumed.returncode == 0, resumed.stderr
    whole = tokenmill_command(*arguments, tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    assert tree_hash(output) == tree_hash(tmp_path / "whole")


def test_a_full_disk_is_resumable(tmp_path, monkeypatch):
    write_corpus(tmp_path / "a.jsonl", 300)
    options = {"inputs": str(tmp_path / "a.jsonl"), "tokenizer": ByteTokenizer(), "unit_bytes": 10_000}
    options |= {"output": str(tmp_path / "out"), "verbose_level": "ERROR"}
    real, left = DurableFile.write, [60_000]

    def write(self, data):
        left[0] -= memoryview(data).nbytes
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, data)

    monkeypatch.setattr(DurableFile, "write", write)
    with pytest.raises(InterruptedJobError, match="free some space") as full:
        tokenmill.prepare(**options)
    assert full.value.exit_code == 75
    monkeypatch.undo()
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert list((tmp_path / "out" / "receipts").glob("*.json"))
    dataset = tokenmill.prepare(**options)
    assert dataset.manifest.account.documents_read == 300


GOOD = b'{"text": "good"}\n'
BAD = {
    "broken_json": (b'{"text": "cut\n', "broken_json"),
    "missing field": (b'{"body": "x"}\n', "missing_field"),
    "not a string": (b'{"text": 7}\n', "not_a_string"),
    "not an object": (b"[1, 2]\n", "not_an_object"),
    "invalid UTF-8": (b'{"text": "\xff"}\n', "invalid_utf8"),
    "a lone surrogate": (b'{"text": "\\ud800"}\n', "lone_surrogate"),
    "an over-long record": (b'{"text": "' + b"x" * 5000 + b'"}\n', "over_long"),
}


def prepare(tmp_path, policy, path, **options):
    return tokenmill.prepare(
        inputs=str(path),
        tokenizer=ByteTokenizer(),
        output=str(tmp_path / f"out-{policy}"),
        text_field="text",
        max_record_bytes=4000,
        on_error=policy,
        verbose_level="ERROR",
        **options,
    )


@pytest.mark.parametrize("kind", BAD)
def test_one_bad_record_is_one_bad_record(tmp_path, kind):
    raw, reason = BAD[kind]
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD * 3 + raw + GOOD * 2)
    with pytest.raises(InputError, match=r"a\.jsonl:4"):
        prepare(tmp_path, "fail", path)
    skipped = prepare(tmp_path, "skip", path).manifest
    assert skipped.account.rejected == {reason: 1}
    assert skipped.documents == 5
    assert ":4" in skipped.rejects[0].place
    replaced = prepare(tmp_path, "replace", path).manifest
    mended = reason in {"invalid_utf8", "lone_surrogate"}
    assert replaced.documents == 5 + mended
    assert (replaced.account.replaced if mended else replaced.account.rejected) == {reason: 1}


def truncated(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    data = gzip.compress(b"".join(b'{"text": "%d"}\n' % n for n in range(20_000)))
    path.write_bytes(data[: len(data) // 2])
    return path


def bomb(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(GOOD * 5_000_000, 1))
    return path


def wrong_extension(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(GOOD * 3)
    return path


@pytest.mark.parametrize(
    ("make", "options"), [(truncated, {}), (bomb, {"max_expansion": 50}), (wrong_extension, {})]
)
def test_bad_files_fail_or_are_counted(tmp_path, make, options):
    path = make(tmp_path)
    with pytest.raises(InputError, match=str(path.name)):
        prepare(tmp_path, "fail", path, **options)
    assert not (tmp_path / "out-fail" / "manifest.json").exists()
    found = prepare(tmp_path, "skip", path, **options).manifest
    account = found.account
    assert account.documents_read == account.documents_written
    assert account.rejected.total() == 1 or make is wrong_extension


def test_a_file_that_shrinks_is_noticed(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD * 2000)

    class Shrinking(ByteTokenizer):
        def encode_batch(self, docs, **options):
            os.truncate(path, 100)
            return super().encode_batch(docs, **options)

    with pytest.raises(InputError, match=r"a\.jsonl"):
        tokenmill.prepare(
            inputs=str(path),
            tokenizer=Shrinking(),
            output=str(tmp_path / "out"),
            unit_bytes=4000,
            on_error="skip",
            threads=1,
            verbose_level="ERROR",
        )
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_usage_errors_have_exit_code_2(tmp_path, tokenizer):
    (tmp_path / "a.jsonl").write_bytes(GOOD)
    for arguments, words in (
        (
            ["prepare", tmp_path / "none.jsonl", "--tokenizer", tokenizer, "--output", tmp_path / "o"],
            "no such file",
        ),
        (["prepare", tmp_path / "a.jsonl", "--output", tmp_path / "o"], "no tokenizer"),
        (["prepare", tmp_path / "a.jsonl", "--tokenizer", tokenizer], "no output"),
    ):
        done = tokenmill_command(*arguments)
        assert done.returncode == 2, done.stderr
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_python_memory_does_not_grow_with_documents(tmp_path):
    """No Python object per document stays behind: the peak of a job of 40,000 documents is that of its blocks."""
    write_corpus(tmp_path / "a.jsonl", 40_000)
    size = (tmp_path / "a.jsonl").stat().st_size
    tracemalloc.start()
    tokenmill.prepare(
        inputs=str(tmp_path / "a.jsonl"),
        tokenizer=ByteTokenizer(),
        output=str(tmp_path / "out"),
        memory_budget="4MiB",
        threads=1,
        verbose_level="ERROR",
        report=False,
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < size, (peak, size)


def on_a_terminal(*arguments, cwd):
    """What a person sees: stdout and stderr are a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    command = [sys.executable, "-m", "tokenmill", *map(str, arguments)]
    seen = b""
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd) as run:
        os.close(theirs)
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:
                break
            if not part:
                break
            seen += part
    os.close(ours)
    assert run.returncode == 0, seen.decode()
    return seen.decode()


def test_a_terminal_shows_one_calm_screen(tmp_path, tokenizer):
    (tmp_path / "b.jsonl").write_text('{"text": "low lower"}\n{"text": "  "}\nnot json\n')
    job = ("prepare", "b.jsonl", "--tokenizer", tokenizer, "--on-error", "skip", "--no-report", "--output")
    seen = on_a_terminal(*job, "calm", cwd=tmp_path)
    assert "INFO" not in seen
    assert "found   1 file, jsonl" in seen
    assert "using   " in seen
    assert "documents left out: 1 (blank 1)" in seen
    assert "records refused: 1 (" in seen
    assert "Tokens around each document" in on_a_terminal(*job, "loud", "-v", cwd=tmp_path)
    piped = tokenmill_command(*job[:1], tmp_path / "b.jsonl", *job[2:], tmp_path / "piped")
    assert "Tokens around each document" in piped.stderr
    assert "Documents left out: 1 (blank 1)" in piped.stderr
    assert len(piped.stdout.splitlines()) == 1
    assert "Rating" not in piped.stderr


def test_a_typo_names_the_nearest_tokenizers(tmp_path):
    for name in ("my-tokenizer", "my-tokenizer-2"):
        tokenmill.train_from_iterator(["low lower"] * 9, 258, progress=False).save(tmp_path / name)
    (tmp_path / "my-tokenizes").mkdir()
    (tmp_path / "a.jsonl").write_text('{"text": "low"}\n')
    done = tokenmill_command(
        "prepare", "a.jsonl", "--tokenizer", "my-tokeniser", "--output", "out", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "my-tokeniser: no such file or directory; did you mean my-tokenizer" in done.stderr
    assert "my-tokenizes" not in done.stderr
    done = tokenmill_command(
        "prepare", "a.jsnl", "--tokenizer", "my-tokenizer", "--output", "out", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "INPUTS: source.inputs: 'a.jsnl': no such file or directory" in done.stderr
    assert "did you mean a.jsonl?" in done.stderr


def test_an_empty_input_is_said(tmp_path, tokenizer):
    (tmp_path / "a.jsonl").touch()
    done = tokenmill_command("prepare", tmp_path / "a.jsonl", "-t", tokenizer, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "WARNING: The inputs hold no document: the dataset is empty" in done.stderr
    assert "0 documents, 0 tokens, 1 shard\n" in done.stdout


def test_more_tasks_than_units_is_said(tmp_path, tokenizer):
    (tmp_path / "a.jsonl").write_text('{"text": "low lower"}\n')
    job = ("prepare", tmp_path / "a.jsonl", "-t", tokenizer, "-o", tmp_path / "out", "--unit-range", "0/4")
    done = tokenmill_command(*job)
    assert "WARNING: 4 tasks, but only 1 unit: lower --unit-bytes" in done.stderr


def test_tokens_around_documents_have_names(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "low lower"}\n')
    special = ["<|endoftext|>", "<|im_end|>"]
    chat = tokenmill.train_from_iterator(["low lower"] * 9, 260, special_tokens=special, progress=False)
    chat.save(tmp_path / "chat")
    (tmp_path / "chat" / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}')
    job = ("prepare", tmp_path / "a.jsonl", "--context-length", "8", "-o")
    done = tokenmill_command(*job, tmp_path / "out", "-t", tmp_path / "chat")
    assert "BOS none, EOS <|im_end|> (1), padding <|im_end|> (1)" in done.stderr
    assert "WARNING: Documents end with <|im_end|> (1), which ends a turn of a chat" in done.stderr
    chosen = tokenmill_command(*job, tmp_path / "b", "-t", tmp_path / "chat", "--eos", "<|endoftext|>")
    assert "WARNING: Documents end" not in chosen.stderr
    plain = tokenmill.train_from_iterator(["low lower"] * 9, 260, special_tokens=[], progress=False)
    plain.save(tmp_path / "plain")
    done = tokenmill_command(*job, tmp_path / "c", "-t", tmp_path / "plain")
    assert "WARNING: Rows are padded with '!' (0), an ordinary token" in done.stderr
