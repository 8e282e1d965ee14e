"""Python tokenizers in worker processes: any object, any number of processes, any death."""

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
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from python_tokenizers import Callable, Characters, Deadly, Sleepy, Touchy

from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.engines import slow
from tokenmill.tokenizer.engines.foreign import Foreign
from tokenmill.tokenizer.engines.slow import SlowEngine

DOCUMENTS = [f"document {number} says héllo 안녕 " * (1 + number % 7) for number in range(200)]


@pytest.fixture(autouse=True)
def workers_from_the_first_byte(monkeypatch):
    monkeypatch.setattr(slow, "IN_PROCESS_BYTES", 0)


@pytest.fixture
def backend():
    with contextlib.ExitStack() as stack:

        def make(tokenizer, num_proc=2):
            made = SlowEngine(tokenizer, num_proc)
            stack.callback(made.close)
            return made

        yield make


def expected(documents):
    rows = [[ord(letter) for letter in document] for document in documents]
    return [token for row in rows for token in row], np.cumsum([0, *map(len, rows)]).tolist()


def encoded(backend, documents):
    ids, offsets = backend.encode_batch(documents, "text", template=False, threads=1)
    return ids.tolist(), offsets.tolist()


@pytest.mark.parametrize("num_proc", [1, 3])
def test_same_ids_whatever_the_number_of_processes(backend, num_proc):
    assert encoded(backend(Characters(), num_proc), DOCUMENTS) == expected(DOCUMENTS)


def list_workers(others=()):
    """The processes that run now, but for those of other tests."""
    running = [process.pid for process in multiprocessing.active_children()]
    return [pid for pid in running if pid not in others]


def test_lists_bytes_and_arrow_arrays(backend):
    made = backend(Characters())
    few = DOCUMENTS[:9]
    assert encoded(made, pa.array(few, pa.large_string())) == expected(few)
    assert encoded(made, [document.encode() for document in few]) == expected(few)
    assert encoded(made, []) == ([], [0])
    assert made.encode("ab", "text", template=False) == [97, 98]
    assert made.decode([97, 98], skip_special=False) == b"ab"


def test_a_killed_worker_is_replaced_and_nothing_is_lost(backend, caplog):
    made, others = backend(Sleepy()), list_workers()
    killed = []

    def kill():
        while not (mine := list_workers(others)):
            time.sleep(0.02)
        killed.append(mine[0])
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with caplog.at_level(logging.WARNING, "tokenmill"):
        logging.getLogger("tokenmill").propagate = True
        found = encoded(made, DOCUMENTS)
    killer.join()
    assert found == expected(DOCUMENTS)
    assert killed
    assert killed[0] not in list_workers()
    assert "A tokenizer process died (exit code -9)" in caplog.text


def test_documents_that_kill_every_worker_are_an_error(backend):
    with pytest.raises(TokenizerError, match="3 tokenizer processes died on the same documents"):
        encoded(backend(Deadly()), DOCUMENTS[:20])


def test_an_error_of_the_tokenizer_is_told(backend):
    with pytest.raises(TokenizerError, match="ValueError: cannot read document"):
        encoded(backend(Touchy()), DOCUMENTS[:4])


def test_what_cannot_be_sent_runs_here_and_says_so(backend, caplog):
    made = backend(SimpleNamespace(encode=lambda text: [len(text)]))
    with caplog.at_level(logging.WARNING, "tokenmill"):
        logging.getLogger("tokenmill").propagate = True
        ids, _ = made.encode_batch(["abc", "de"], "text", template=False, threads=1)
    assert ids.tolist() == [3, 2]
    assert "cannot be sent to worker processes" in caplog.text


def test_little_text_starts_no_process(backend, monkeypatch):
    monkeypatch.setattr(slow, "IN_PROCESS_BYTES", 1000)
    made, others = backend(Characters()), list_workers()
    assert encoded(made, ["abc"]) == ([97, 98, 99], [0, 3])
    assert list_workers(others) == []
    assert encoded(made, ["a" * 1000])[1] == [0, 1000]
    assert len(list_workers(others)) == 1


def test_pickles_without_its_processes(backend):
    made = backend(Characters())
    encoded(made, DOCUMENTS[:5])
    copy = pickle.loads(pickle.dumps(made))
    assert copy.num_proc == 2
    assert copy._workers is None


def test_a_script_without_a_main_guard_runs_once(tmp_path):
    """Spawned processes must not run the user's script again."""
    (tmp_path / "mine.py").write_text(
        "class Tok:\n    def __call__(self, text):\n        return [len(text)]\n"
    )
    script = tmp_path / "job.py"
    script.write_text(
        textwrap.dedent("""
        from mine import Tok
        from tokenmill.tokenizer.engines import slow
        slow.IN_PROCESS_BYTES = 0
        print("started")
        ids, _ = slow.SlowEngine(Tok(), 2).encode_batch(["abc", "d"], "text", template=False)
        print(ids.tolist())
        """)
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.stdout.split() == ["started", "[3,", "1]"]


def test_dialects_of_foreign_tokenizers():
    assert Foreign(Callable()).encode_many(["abc"], "text", template=False) == [[3, 7]]
    assert Foreign(lambda text: [1, 2]).encode_many(["x"], "text", template=True) == [[1, 2]]
    encoding = SimpleNamespace(
        encode=lambda text, add_special_tokens=True: SimpleNamespace(ids=[int(add_special_tokens)])
    )
    assert Foreign(encoding).encode_many(["x"], "text", template=False) == [[0]]
    for wrong in (3, "gpt2", object()):
        with pytest.raises(TokenizerError, match="neither encode"):
            Foreign(wrong)
    with pytest.raises(TokenizerError, match="expected a list of token ids"):
        Foreign(lambda text: text.split()).encode_many(["a b"], "text", template=False)
    with pytest.raises(TokenizerError, match="returned None; expected"):
        Foreign(lambda text: None).encode_many(["a b"], "text", template=False)
    with pytest.raises(TokenizerError, match="no decode"):
        Foreign(Callable()).decode([1], skip_special=False)


def test_an_id_beyond_what_the_tokenizer_says_is_an_error(backend):
    liar = SimpleNamespace(encode=lambda text: [len(text)], vocab_size=3)
    with pytest.raises(TokenizerError, match="returned the id 5 although it says that ids are below 3"):
        backend(liar).encode_batch(["abcde"], "text", template=False, threads=1)


def test_special_tokens_of_a_python_tokenizer():
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    tokenizer = transformers.ByT5Tokenizer()
    foreign = Foreign(tokenizer)
    text = "a</s>"
    assert foreign.encode_many([text], "parse", template=False)[0][1:] == [tokenizer.eos_token_id]
    assert len(foreign.encode_many([text], "text", template=False)[0]) == len(text)
    assert foreign.encode_many(["a"], "text", template=True)[0][-1] == tokenizer.eos_token_id
    with pytest.raises(TokenizerError, match="at character 1"):
        foreign.encode_many([text], "forbid", template=False)
    assert foreign.fingerprint() == Foreign(transformers.ByT5Tokenizer()).fingerprint()
    assert foreign.fingerprint() != Foreign(Characters()).fingerprint()
