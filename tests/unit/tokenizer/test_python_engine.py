"""Python tokenizers in worker processes."""

import contextlib
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from python_tokenizers import Callable, Characters, Deadly, Sleepy, Touchy

from tokenmill.errors import InputError, TokenizerError
from tokenmill.tokenizer.engines import python
from tokenmill.tokenizer.engines.python import PythonEngine

DOCUMENTS = [f"document {number} says héllo 안녕 " * (1 + number % 7) for number in range(200)]


@pytest.fixture(autouse=True)
def workers_from_the_first_byte(monkeypatch):
    monkeypatch.setattr(python, "IN_PROCESS_BYTES", 0)


@pytest.fixture
def engine():
    with contextlib.ExitStack() as stack:

        def make(tokenizer, num_proc=2):
            made = PythonEngine(tokenizer, num_proc)
            stack.callback(lambda: made._pool and made._pool.shutdown())
            return made

        yield make


def expected(documents):
    rows = [[ord(letter) for letter in document] for document in documents]
    return [token for row in rows for token in row], np.cumsum([0, *map(len, rows)]).tolist()


def encoded(engine, documents):
    ids, offsets = engine.encode_batch(documents, "text", template=False, threads=1)
    return ids.tolist(), offsets.tolist()


def list_workers(others=()):
    """Return the processes that run now, without those of other tests."""
    running = [process.pid for process in multiprocessing.active_children()]
    return [pid for pid in running if pid not in others]


def test_lists_bytes_and_arrow_arrays(engine):
    made = engine(Characters(), 3)
    few = DOCUMENTS[:9]
    assert encoded(made, DOCUMENTS) == expected(DOCUMENTS)
    assert encoded(made, pa.array(few, pa.large_string())) == expected(few)
    assert encoded(made, [document.encode() for document in few]) == expected(few)
    assert encoded(made, []) == ([], [0])
    assert made.encode("ab", "text", template=False) == [97, 98]
    assert made.decode([97, 98], skip_special=False) == b"ab"
    copy = pickle.loads(pickle.dumps(made))
    assert copy.num_proc == 3
    assert copy._pool is None


def test_documents_of_a_killed_worker_are_encoded_again(engine, caplog):
    made, others = engine(Sleepy()), list_workers()

    def kill():
        while not (mine := list_workers(others)):
            time.sleep(0.02)
        os.kill(mine[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with caplog.at_level(logging.WARNING, "tokenmill"):
        logging.getLogger("tokenmill").propagate = True
        found = encoded(made, DOCUMENTS)
    killer.join()
    assert found == expected(DOCUMENTS)
    assert "A tokenizer process died; new ones encode its documents again" in caplog.text


def test_documents_that_kill_every_worker_are_an_error(engine):
    with pytest.raises(TokenizerError, match="processes died twice on the same documents"):
        encoded(engine(Deadly()), DOCUMENTS[:20])


def test_an_error_of_the_tokenizer_is_reported(engine):
    with pytest.raises(TokenizerError, match="ValueError: cannot read document"):
        encoded(engine(Touchy()), DOCUMENTS[:4])


def test_a_tokenizer_that_cannot_be_pickled_runs_in_this_process(engine, caplog):
    made = engine(SimpleNamespace(encode=lambda text: [len(text)]))
    with caplog.at_level(logging.WARNING, "tokenmill"):
        logging.getLogger("tokenmill").propagate = True
        ids, _ = made.encode_batch(["abc", "de"], "text", template=False, threads=1)
    assert ids.tolist() == [3, 2]
    assert "cannot be sent to worker processes" in caplog.text


def test_a_script_without_a_main_guard_runs_once(tmp_path):
    """Spawned processes must not run the user's script again, and a killed parent must not leave them."""
    (tmp_path / "mine.py").write_text(
        "class Tok:\n    def __call__(self, text):\n        return [len(text)]\n"
    )
    script = tmp_path / "job.py"
    script.write_text(
        textwrap.dedent("""
        import multiprocessing, os, signal
        from mine import Tok
        from tokenmill.tokenizer.engines import python
        python.IN_PROCESS_BYTES = 0
        print("started")
        ids, _ = python.PythonEngine(Tok(), 1).encode_batch(["abc", "d"], "text", template=False, threads=1)
        print(ids.tolist(), multiprocessing.active_children()[0].pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """)
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    *words, worker = done.stdout.split()
    assert words == ["started", "[3,", "1]"]
    for _ in range(100):
        if not Path(f"/proc/{worker}").exists():
            return
        time.sleep(0.05)
    pytest.fail("the worker outlives its parent")


def test_dialects_of_python_tokenizers():
    assert PythonEngine(Callable()).encode_here(["abc"], "text", template=False) == [[3, 7]]
    assert PythonEngine(lambda text: [1, 2]).encode_here(["x"], "text", template=True) == [[1, 2]]
    encoding = SimpleNamespace(
        encode=lambda text, add_special_tokens=True: SimpleNamespace(ids=[int(add_special_tokens)])
    )
    assert PythonEngine(encoding).encode_here(["x"], "text", template=False) == [[0]]
    with pytest.raises(TokenizerError, match="expected a list of token ids"):
        PythonEngine(lambda text: text.split()).encode_here(["a b"], "text", template=False)
    with pytest.raises(TokenizerError, match="returned None; expected"):
        PythonEngine(lambda text: None).encode_here(["a b"], "text", template=False)
    with pytest.raises(TokenizerError, match="no decode"):
        PythonEngine(Callable()).decode([1], skip_special=False)


def test_an_id_beyond_what_the_tokenizer_says_is_an_error(engine):
    liar = SimpleNamespace(encode=lambda text: [len(text)], vocab_size=3)
    with pytest.raises(TokenizerError, match="returned the id 5, but reports that ids are below 3"):
        engine(liar).encode_batch(["abcde"], "text", template=False, threads=1)


def test_special_tokens_of_a_python_tokenizer():
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    tokenizer = transformers.ByT5Tokenizer()
    made = PythonEngine(tokenizer)
    text = "a</s>"
    assert made.encode_here([text], "parse", template=False)[0][1:] == [tokenizer.eos_token_id]
    assert len(made.encode_here([text], "text", template=False)[0]) == len(text)
    assert made.encode_here(["a"], "text", template=True)[0][-1] == tokenizer.eos_token_id
    with pytest.raises(InputError, match="at character 1"):
        PythonEngine(tokenizer).encode(text, "forbid", template=False)
    assert made.fingerprint() == PythonEngine(transformers.ByT5Tokenizer()).fingerprint()
    assert made.fingerprint() != PythonEngine(Characters()).fingerprint()
