"""The command as users run it: exit codes, signals, a full disk, and every kind of bad input."""

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

import pytest
from click.testing import CliRunner
from test_determinism import tree_hash, write_corpus

import tokenmill
from byte_tokenizer import prepare_bytes
from small_tokenizers import write_bpe
from tokenmill.cli.dataset import convert as convert_command
from tokenmill.cli.dataset import verify as verify_command
from tokenmill.errors import InputError


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return write_bpe(tmp_path_factory.mktemp("tokenizer"))


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
    options |= {"text_field": "text", "max_record_bytes": 4000, "on_error": policy}
    return prepare_bytes(path, tmp_path / f"out-{policy}", **options)


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
    repaired = reason in {"invalid_utf8", "lone_surrogate"}
    assert replaced.documents == 5 + repaired
    assert (replaced.account.replaced if repaired else replaced.account.rejected) == {reason: 1}


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
    assert "Input: 1 file" in seen
    assert "documents left out: 1 (blank 1)" in seen
    assert "records refused: 1 (" in seen
    assert "Performance configuration" not in seen
    assert "Performance configuration" in on_a_terminal(*job, "loud", "-v", cwd=tmp_path)
    piped = tokenmill_command(*job[:1], tmp_path / "b.jsonl", *job[2:], tmp_path / "piped")
    assert "Tokens around each document" in piped.stderr
    assert "Documents left out: 1 (blank 1)" in piped.stderr
    assert len(piped.stdout.splitlines()) == 1


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
    assert "INPUTS: 'a.jsnl': no such file or directory" in done.stderr
    assert "did you mean a.jsonl?" in done.stderr


def test_an_empty_input_is_said(tmp_path, tokenizer):
    (tmp_path / "a.jsonl").touch()
    done = tokenmill_command("prepare", tmp_path / "a.jsonl", "-t", tokenizer, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "WARNING: The dataset is empty: 0 documents were read" in done.stderr
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


def test_a_text_file_is_one_document_whatever_its_size(tmp_path, tokenizer):
    text = ("the cat sat on the mat " * 8 + "\n") * 100_000
    assert len(text) > 17 << 20
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode(), 1))
    (tmp_path / "late.txt").write_text(f"{text[: 3 << 20]}<|endoftext|>{text[: 1 << 20]}")

    def count(name, **options):
        output = tmp_path / f"out-{name}-{'-'.join(options)}"
        options |= {"report": False, "parity_check": False, "verbose_level": "ERROR"}
        return len(tokenmill.prepare(tmp_path / name, tokenizer, output, **options))

    assert count("a.txt") == 1
    assert count("a.txt", txt_mode="line") == 100_000
    assert count("late.txt") == 2
    trained = set()
    for name, mode, limit in [
        ("a.txt", "auto", "1MB"),
        ("a.txt.gz", "auto", "1MB"),
        ("a.txt", "line", "2MB"),
    ]:
        if mode == "auto":
            with pytest.raises(InputError, match=r"txt_mode.*document_separator.*max_record_bytes"):
                count(name, max_record_bytes=limit)
        # Training streams the document, and finds the same tokens as with a document per line.
        options = {"txt_mode": mode, "max_record_bytes": limit, "pattern": r"\w+|\s"}
        trained.add(tokenmill.train(tmp_path / name, 270, show_progress=False, **options).fingerprint)
    assert len(trained) == 1
