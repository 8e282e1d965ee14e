"""The public class: what each call takes and gives, and that nothing can change it."""

import multiprocessing
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tokenmill import Tokenizer
from tokenmill.errors import InputError, MissingExtraError, TokenizerError
from tokenmill.tokenizer.engines.backend import TokenBatch
from tokenmill.tokenizer.recipe import AddedToken

TEXT = "hello the <|end|> thing and another hello"


def test_encode_and_decode(tok):
    ids = tok.encode(TEXT)
    assert tok.decode(ids) == TEXT
    assert tok.decode_bytes(ids) == TEXT.encode()
    assert tok.special_tokens["<|end|>"] in ids
    assert tok.encode(TEXT.encode()) == ids
    assert tok.count(TEXT) == len(ids)


def test_special_decides_what_a_special_token_in_the_text_is(tok):
    end = tok.special_tokens["<|end|>"]
    assert tok.encode("<|end|>") == [end]
    assert end not in tok.encode("<|end|>", special="text")
    assert tok.decode(tok.encode("<|end|>", special="text")) == "<|end|>"
    with pytest.raises(InputError, match=r'at byte 2 .*special="text"'):
        tok.encode("ab<|end|>", special="forbid")
    with pytest.raises(InputError, match="document 1"):
        tok.encode_batch(["x", "<pad>"], special="forbid")
    with pytest.raises(InputError, match="expected"):
        tok.encode("x", special="maybe")


def test_the_template_is_added_on_request(tok):
    end = tok.special_tokens["<|end|>"]
    plain = tok.encode("hello")
    assert tok.encode("hello", add_special_tokens=True) == [end, *plain]
    assert tok.encode_batch(["hello"], add_special_tokens=True).to_lists() == [[end, *plain]]
    ids, places = tok.offsets("hello", add_special_tokens=True)
    assert ids == [end, *plain]
    assert places == [(0, 0), (0, 5)]
    assert tok.decode([end, *plain], skip_special_tokens=True) == "hello"


def test_a_batch_is_flat_with_offsets(tok):
    batch = tok.encode_batch(["hello", "", "the thing"], threads=2)
    assert isinstance(batch, TokenBatch)
    assert batch.ids.dtype == np.uint16
    assert batch.offsets.dtype == np.int64
    assert len(batch) == 3
    assert batch[1].tolist() == []
    assert batch[-1].tolist() == tok.encode("the thing")
    assert [ids.tolist() for ids in batch] == batch.to_lists()
    assert batch.lengths.tolist() == [len(ids) for ids in batch.to_lists()]
    assert batch.to_arrow().to_pylist() == batch.to_lists()
    assert tok.decode_batch(batch) == ["hello", "", "the thing"]
    with pytest.raises(IndexError, match="batch of 3"):
        batch[3]
    assert len(tok.encode_batch([])) == 0
    assert tok.encode_batch(pa.array([], pa.string())).to_lists() == []


def test_a_huge_batch_is_joined_in_order(tok):
    """More documents than are encoded before results are joined."""
    docs = ["the hello", "", "thing"] * 400_000
    batch = tok.encode_batch(pa.array(docs), threads=2)
    few = tok.encode_batch(docs[:3], threads=1)
    assert np.array_equal(batch.ids, np.tile(few.ids, 400_000))
    assert np.array_equal(np.diff(batch.offsets), np.tile(np.diff(few.offsets), 400_000))


@pytest.mark.parametrize("letter", ["é", "가", "😀"], ids=["one byte", "two bytes", "four bytes"])
def test_a_huge_string_is_encoded_in_parts(tok, letter):
    text = f"the thing {letter} hello <|end|>\n" * 40_000 + "the" * 30_000
    whole = tok.encode_batch([text.encode()], threads=1)
    for threads in (1, 2, 3):
        batch = tok.encode_batch(["hello", text, "the"], threads=threads)
        assert np.array_equal(batch[1], whole[0])
        assert batch.to_lists()[::2] == [tok.encode("hello"), tok.encode("the")]
    text += "\udfff"
    with pytest.raises(InputError, match=f"document 1: .* at character {len(text) - 1},"):
        tok.encode_batch(["hello", text], threads=2)


class Named(str):
    """A subclass, whose characters Python keeps elsewhere."""

    __slots__ = ()


@pytest.mark.parametrize("text", ["", "plain", "déjà vu", "방앗간이 돈다", "磨坊🌾 turns", "é" * 1000])
def test_strings_of_every_width_and_kind_give_the_ids_of_their_utf8(tok, text):
    ids = tok.encode(text.encode())
    assert tok.encode(text) == tok.encode(Named(text)) == ids
    assert tok.encode_batch([text, Named(text)]).to_lists() == [ids, ids]


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tokenmill\[tiktoken\]'"):
        Tokenizer.load("cl100k_base")


def test_one_text_is_no_batch(tok):
    with pytest.raises(TypeError, match="one text"):
        tok.encode_batch("hello")
    with pytest.raises(TypeError, match="document 1"):
        tok.encode_batch(["x", 3])
    with pytest.raises(TypeError, match="str or bytes"):
        tok.encode(3)
    with pytest.raises(TokenizerError, match="threads=0"):
        tok.encode_batch(["x"], threads=0)


def test_the_vocabulary_can_be_asked(tok):
    assert tok.token_bytes(tok.id_of(b" the")) == b" the"
    assert tok.id_of("<|end|>") == tok.special_tokens["<|end|>"]
    assert tok.id_of(b"no such token") is None
    assert tok.vocab_size == max(tok.added_tokens.values()) + 1
    assert tok.special_id("eos") == tok.special_tokens["<|end|>"]
    assert tok.special_id("pad") == tok.special_tokens["<pad>"]
    assert tok.special_id("bos") is None
    assert tok.family == "gpt2"
    assert str(tok.strategy).startswith("native (")
    assert "native" in repr(tok)
    with pytest.raises(InputError, match="not in the vocabulary"):
        tok.token_bytes(10**6)


def test_a_stream_equals_the_whole(tok):
    text = "\n".join(f"line {n} of the thing, hello <|end|> and another" for n in range(20_000))
    parts = (text[at : at + 1013] for at in range(0, len(text), 1013))
    assert list(tok.encode_iterable(parts)) == tok.encode(text)
    assert list(tok.encode_iterable([])) == []


def test_a_stream_holds_back_little(tok):
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield "some words of the thing and another " * 30

    stream = tok.encode_iterable(endless())
    for _ in range(1000):
        next(stream)
    assert taken < 1000


def test_nothing_can_be_changed(tok):
    with pytest.raises(AttributeError, match="immutable"):
        tok.family = "x"
    with pytest.raises(AttributeError):
        tok.engine.codec.family = "x"


def test_pickle_and_fingerprint(tok):
    again = pickle.loads(pickle.dumps(tok))
    assert again.encode(TEXT) == tok.encode(TEXT)
    assert again.fingerprint == tok.fingerprint
    other = Tokenizer.load(tok.recipe, special_tokens={"<new>": 400})
    assert other.fingerprint != tok.fingerprint
    assert other.encode("a<new>b") == [97, 400, 98]
    assert tok.with_strategy("huggingface").encode(TEXT) == tok.encode(TEXT)


def test_threads_share_one_tokenizer(tok):
    want = tok.encode(TEXT * 50)
    wrong = []

    def work():
        wrong.extend(1 for _ in range(50) if tok.encode(TEXT * 50) != want)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _in_child(tok, text, queue):
    queue.put(tok.encode_batch([text] * 200, threads=2).to_lists()[-1])


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_children_can_use_it(tok, method):
    tok.encode_batch([TEXT] * 200, threads=2)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(tok, TEXT, queue))
    child.start()
    assert queue.get(timeout=60) == tok.encode(TEXT)
    child.join(60)
    assert child.exitcode == 0


def test_ctrl_c_ends_a_long_call():
    script = """
        import sys, threading, os, signal, time
        from tokenmill import Tokenizer
        sys.path.insert(0, sys.argv[1])
        from conftest import small_recipe
        tok = Tokenizer(small_recipe())
        docs = ["hello the thing 안녕 " * 2000] * 40000
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            tok.encode_batch(docs, threads=1)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - start)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(Path(__file__).parent)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("interrupted"), done.stdout + done.stderr
    assert float(done.stdout.split()[1]) < 10


def test_added_tokens_that_are_not_special_are_always_found(tok):
    from dataclasses import replace

    recipe = replace(tok.recipe, added=(*tok.recipe.added, AddedToken("WORD", 300, special=False)))
    assert 300 in Tokenizer(recipe).encode("a WORD b", special="text")
