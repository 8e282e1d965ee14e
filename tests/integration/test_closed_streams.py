"""Streams that are closed before the command starts: no traceback and no false success."""

import os
import subprocess
import sys

import pytest

import tokenmill
from small_tokenizers import write_bpe


def run(closed, *words):
    """The command with some of its three streams closed, as a shell's `>&-` does it."""
    return subprocess.run(
        [sys.executable, "-m", "tokenmill", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: [os.close(number) for number in closed],
    )


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "c.jsonl").write_text('{"text": "one two"}\n' * 40)
    write_bpe(tmp_path / "tok")
    return tmp_path / "c.jsonl", "--tokenizer", tmp_path / "tok"


@pytest.mark.parametrize("closed", [[1], [0, 1]])
@pytest.mark.parametrize("words", [["--help"], ["config", "show"]])
def test_what_nobody_receives_is_no_success(closed, words):
    done = run(closed, *words)
    assert done.returncode == 1
    assert done.stderr.startswith("tokenmill: standard output is closed;")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("closed", [[0], [2], [0, 2]])
def test_a_job_does_its_work(closed, corpus, tmp_path):
    done = run(closed, "prepare", *corpus, "--output", tmp_path / "out")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    checked = run([], "dataset", "verify", tmp_path / "out")
    assert checked.returncode == 0, checked.stdout
    assert len(tokenmill.open(tmp_path / "out")) == 40
