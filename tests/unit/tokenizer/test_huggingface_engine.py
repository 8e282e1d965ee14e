"""The engine on Hugging Face's library: its thread pool follows the setting."""

import os
import subprocess
import sys

from small_tokenizers import write_word_piece

COUNT = """
import os, sys
import numpy  # its own threads are not counted
from tokenmill.tokenizer.engines.huggingface import limit_threads
from tokenmill.tokenizer.tokenizer import Tokenizer
tokenizer = Tokenizer.load(sys.argv[1])
before = len(os.listdir("/proc/self/task"))
with limit_threads(3):
    tokenizer.encode_batch(["the document" * 100] * 100, special="text")
print(len(os.listdir("/proc/self/task")) - before, os.environ.get("RAYON_NUM_THREADS"))
"""


def test_the_pool_has_the_requested_number_of_threads(tmp_path):
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", COUNT, str(write_word_piece(tmp_path))],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.stdout.split() == ["3", "None"]
