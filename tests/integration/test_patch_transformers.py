"""transformers on our core by a patch: in a program, in a block, and for a script without edits."""

import logging
import os
import subprocess
import sys

import pytest

import tokenmill
from small_tokenizers import write_bpe, write_word_piece
from tokenmill.tokenizer.interop.hf import CoreBackend

transformers = pytest.importorskip("transformers", exc_type=ImportError)

TEXT = "the document is in the other one <|endoftext|> 한국"


@pytest.fixture
def said(caplog):
    logging.getLogger("tokenmill").propagate = True
    caplog.set_level(logging.INFO, "tokenmill")
    return caplog


def load(path):
    return transformers.AutoTokenizer.from_pretrained(path)


def test_a_block(tmp_path, said):
    path = write_bpe(tmp_path / "bpe")
    before = load(path)
    with tokenmill.patch_transformers():
        patched = load(path)
    assert isinstance(patched._tokenizer, CoreBackend)
    assert not isinstance(before._tokenizer, CoreBackend)
    assert not isinstance(load(path)._tokenizer, CoreBackend)
    texts = [TEXT * 40] * 500
    assert patched(texts).data == before(texts).data
    assert "same ids on the first documents" in said.text
    assert patched._tokenizer.core.strategy.name == "native"
    options = {"truncation": True, "max_length": 9, "return_overflowing_tokens": True}
    assert patched(texts[:2], **options).data == before(texts[:2], **options).data


def test_close_by_hand_and_twice(tmp_path):
    path = write_bpe(tmp_path / "bpe")
    first, second = tokenmill.patch_transformers(), tokenmill.patch_transformers()
    assert isinstance(load(path)._tokenizer, CoreBackend)
    assert not isinstance(load(path)._tokenizer._real, CoreBackend)
    second.close()
    first.close()
    assert not isinstance(load(path)._tokenizer, CoreBackend)


def test_what_the_core_does_not_run_stays_with_one_line(tmp_path, said):
    path = write_word_piece(tmp_path / "wp")
    with tokenmill.patch_transformers():
        tokenizer = load(path)
    assert tokenizer(["the document", "a"]).data == load(path)(["the document", "a"]).data
    tokenizer("the")
    assert said.text.count("stays with Hugging Face's engine: the model is WordPiece") == 1


def test_a_difference_ends_it_loudly(tmp_path, said):
    path = write_bpe(tmp_path / "bpe")
    with tokenmill.patch_transformers():
        tokenizer = load(path)
    wrong = tokenmill.train_from_iterator(["the the"] * 9, 258, progress=False)
    tokenizer._tokenizer.__dict__["core"] = wrong
    assert tokenizer(TEXT).data == load(path)(TEXT).data
    assert "PARITY: tokenmill and Hugging Face differ" in said.text
    assert tokenizer._tokenizer.core is None
    assert tokenizer([TEXT]).data == load(path)([TEXT]).data


SCRIPT = """
import sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(__name__, sys.argv[1:], type(tokenizer._tokenizer).__name__, tokenizer("the document")["input_ids"])
sys.exit(int(sys.argv[2]))
"""


def run(*arguments):
    command = [sys.executable, "-m", "tokenmill.patch", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, timeout=120, check=False)  # fmt: skip


def test_a_script_that_nobody_edits(tmp_path):
    path = write_bpe(tmp_path / "bpe")
    (tmp_path / "train.py").write_text(SCRIPT)
    done = run(tmp_path / "train.py", path, "7")
    assert done.returncode == 7, done.stderr
    assert done.stdout.split()[0] == "__main__"
    assert "CoreBackend" in done.stdout
    assert str(load(path)("the document")["input_ids"]) in done.stdout


def test_no_script():
    for arguments in ([], ["nowhere.py"]):
        done = run(*arguments)
        assert (done.returncode, "usage: python -m tokenmill.patch" in done.stderr) == (2, True)
        assert "Traceback" not in done.stderr
