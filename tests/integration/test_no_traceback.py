"""Whatever the system does to a job's output, the command ends with an error message and its exit code."""

import errno
import os
import shutil
import threading

import pytest

import tokenmill
from byte_tokenizer import prepare_bytes
from tokenmill.errors import ConfigError, InterruptedJobError
from tokenmill.pipeline.output import explain_faults


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"text": "some words of a document"}\n' * 400)
    return path


def prepare(corpus, output, **options):
    return prepare_bytes(corpus, output, unit_bytes=2000, **options)


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

    with pytest.raises(InterruptedJobError, match=r"the system failed .*removed directory"):
        prepare(corpus, output, keep=remove, threads=1)
    assert prepare(corpus, output, keep=remove).manifest.documents == 400


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.ENOSPC, InterruptedJobError, "No space left"),
        (errno.EROFS, ConfigError, "cannot be written"),
        (errno.EACCES, ConfigError, "cannot be written"),
        (errno.EIO, InterruptedJobError, "the system failed"),
    ],
)
def test_what_the_system_refuses_has_a_sentence(tmp_path, number, kind, words):
    output = tmp_path / "out"
    with pytest.raises(kind, match=words) as raised, explain_faults(output):
        raise OSError(number, os.strerror(number), str(output / "plan.json"))
    assert str(output) in str(raised.value)
    assert raised.value.exit_code in {2, 75}


def test_a_file_where_a_tokenizer_should_go(corpus, tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigError, match=r"cannot be written .*name another output"):
        tokenmill.train(str(corpus), 260, output=str(tmp_path / "out"), progress=False)
    assert (tmp_path / "out").read_text() == "mine"
