"""Whatever the system does to a job's output, the command ends with a sentence and its exit code."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer
from small_tokenizers import write_bpe
from tokenmill.base.errors import ConfigError, InterruptedJobError, StoreError
from tokenmill.jobs.output_faults import explain_faults


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"text": "some words of a document"}\n' * 400)
    return path


def prepare(corpus, output, **options):
    options = {"unit_bytes": 2000, "verbose_level": "ERROR", "show_progress": False} | options
    return tokenmill.prepare(inputs=str(corpus), tokenizer=ByteTokenizer(), output=str(output), **options)


def test_an_output_that_is_a_file(corpus, tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigError, match=r"cannot be written .*name another output"):
        prepare(corpus, tmp_path / "out" / "below")
    assert (tmp_path / "out").read_text() == "mine"


def test_an_output_that_is_removed_while_it_is_written(corpus, tmp_path):
    output, gone = tmp_path / "out", threading.Event()

    def remove(_text):
        if (output / "receipts").exists() and not gone.is_set():
            shutil.rmtree(output, ignore_errors=True)
            gone.set()
        return True

    with pytest.raises(InterruptedJobError, match=r"was removed while|the system failed while"):
        prepare(corpus, output, keep=remove, threads=1)
    assert prepare(corpus, output, keep=remove).manifest.documents == 400


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.ENOSPC, InterruptedJobError, "no space left"),
        (errno.EROFS, ConfigError, "cannot be written"),
        (errno.EACCES, ConfigError, "cannot be written"),
        (errno.EIO, InterruptedJobError, "the system failed"),
        (errno.EMFILE, InterruptedJobError, "the system failed"),
        (errno.ENOENT, InterruptedJobError, "was removed"),
    ],
)
def test_what_the_system_refuses_has_a_sentence(tmp_path, number, kind, words):
    output = tmp_path / "out"
    with pytest.raises(kind, match=words) as raised, explain_faults(output):
        raise OSError(number, os.strerror(number), str(output / "plan.json"))
    assert str(output) in str(raised.value)
    assert raised.value.exit_code in {2, 75}


def test_errors_of_ours_pass_as_they_are(tmp_path):
    with pytest.raises(tokenmill.TokenmillError, match=r"^as it is$"), explain_faults(tmp_path):
        raise StoreError("as it is")


def handles_interrupt(pid):
    """Whether the process has a handler for Ctrl-C, or leaves it to the system; None once it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks the system which signals are caught")
def test_ctrl_c_in_the_first_moments(corpus, tmp_path):
    tokenizer = write_bpe(tmp_path / "tokenizer")
    command = [sys.executable, "-m", "tokenmill", "prepare", corpus, "--tokenizer", tokenizer]
    chosen = random.Random(0)
    for turn in range(12):
        process = subprocess.Popen(
            [*map(str, command), "--output", str(tmp_path / f"out-{turn}")],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        # Python itself handles the signal from its start; our first line takes that away until we can answer.
        for expected in (True, False):
            while handles_interrupt(process.pid) is not expected:
                assert process.poll() is None
                time.sleep(0.001)
        time.sleep(chosen.random() * 0.6)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode in {75, -signal.SIGINT, 0}, told
        assert "Traceback" not in told
