"""Hugging Face's threads follow the setting, and the environment does not tell afterwards."""

import os
import subprocess
import sys

import tokenizers

from small_tokenizers import write_word_piece
from tokenmill.tokenizer.engines import hf_pool

COUNT = """
import os, sys
import numpy  # its own threads are not counted
from tokenmill.tokenizer.engines import hf_pool
from tokenmill.tokenizer.tokenizer import Tokenizer
tokenizer = Tokenizer.load(sys.argv[1])
before = len(os.listdir("/proc/self/task"))
with hf_pool.resize(3):
    tokenizer.encode_batch(["the document" * 100] * 100, special="text")
print(len(os.listdir("/proc/self/task")) - before, os.environ.get("RAYON_NUM_THREADS"))
"""
# In version 1 the thread that calls works along.
OWN = 3 if int(tokenizers.__version__.partition(".")[0]) < 1 else 2


def test_the_environment_is_left_as_it_was(monkeypatch):
    monkeypatch.setenv(hf_pool.VARIABLE, "7")
    with hf_pool.resize(2):
        assert os.environ[hf_pool.VARIABLE] == "2"
    assert os.environ[hf_pool.VARIABLE] == "7"
    monkeypatch.delenv(hf_pool.VARIABLE)
    with hf_pool.resize(2):
        pass
    assert hf_pool.VARIABLE not in os.environ


def test_the_pool_has_as_many_threads_as_asked_for(tmp_path):
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(write_word_piece(tmp_path))],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.stdout.split() == [str(OWN), "None"]
