"""`as_tiktoken()` against `tiktoken.Encoding` itself: the cases of tiktoken's own tests, and every method on both."""

import pickle
from functools import cache

import pytest
import tiktoken
from torture import texts
from vocabularies import case, openai, place, tiktoken_reference

from tokenmill import Tokenizer, train_from_iterator
from tokenmill.errors import InputError, TokenizerError

NAMES = ["cl100k_base", "o200k_base"]
SPECIAL = "<|endoftext|> hello <|fim_prefix|> there <|fim_middle|>"


@cache
def both(name):
    return Tokenizer.load(place(*openai(name))).as_tiktoken(), tiktoken_reference(name)


def test_simple():
    gpt2 = case("gpt2")[0].as_tiktoken()
    assert gpt2.encode("hello world") == [31373, 995]
    assert gpt2.decode([31373, 995]) == "hello world"
    assert gpt2.encode("hello <|endoftext|>", allowed_special="all") == [31373, 220, 50256]
    assert [gpt2.encode("0" * n) for n in (1, 2, 8, 9, 16, 17)] == [
        [15], [405], [8269], [10535, 830], [25645], [8269, 10535, 830]
    ]  # fmt: skip
    ours, _ = both("cl100k_base")
    assert ours.encode("'rer") == [2351, 81]
    assert ours.encode("today\n \n") == [31213, 27907]
    assert ours.encode("today\n  \n") == [31213, 14211]
    assert ours.encode(" \x850") == [220, 126, 227, 15]
    assert ours.encode("") == []


@pytest.mark.parametrize("name", NAMES)
def test_every_token_by_itself(name):
    ours, theirs = both(name)
    for token in range(0, theirs.n_vocab, 37):
        try:
            spelled = theirs.decode_single_token_bytes(token)
        except KeyError:
            with pytest.raises(KeyError):
                ours.decode_single_token_bytes(token)
            continue
        assert ours.decode_single_token_bytes(token) == spelled
        assert ours.encode_single_token(spelled) == token
    with pytest.raises(KeyError):
        ours.encode_single_token("no such token as this")


@pytest.mark.parametrize("name", NAMES)
def test_attributes(name):
    ours, theirs = both(name)
    assert (ours.n_vocab, ours.max_token_value, ours.eot_token) == (
        theirs.n_vocab,
        theirs.max_token_value,
        theirs.eot_token,
    )
    assert ours.special_tokens_set == theirs.special_tokens_set
    assert [ours.is_special_token(i) for i in (5, ours.eot_token)] == [False, True]
    assert ours.token_byte_values() == sorted(theirs.token_byte_values())
    again = pickle.loads(pickle.dumps(ours))
    assert again.encode(SPECIAL, allowed_special="all") == theirs.encode(SPECIAL, allowed_special="all")


@pytest.mark.parametrize("name", NAMES)
def test_texts(name):
    ours, theirs = both(name)
    docs = texts()[::5]
    want = theirs.encode_ordinary_batch(docs)
    assert ours.encode_ordinary_batch(docs, num_threads=2) == want
    assert ours.encode_batch(docs, disallowed_special=()) == want
    assert [ours.encode_ordinary(doc) for doc in docs[::9]] == want[::9]
    assert ours.decode_batch(want) == docs
    assert ours.decode_bytes_batch(want) == [doc.encode() for doc in docs]
    for doc, ids in list(zip(docs, want, strict=True))[::7]:
        assert ours.decode_with_offsets(ids) == theirs.decode_with_offsets(ids)
        assert ours.decode_tokens_bytes(ids) == theirs.decode_tokens_bytes(ids)
        array = ours.encode_to_numpy(doc, disallowed_special=())
        assert (str(array.dtype), array.tolist()) == ("uint32", ids)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("allowed", [set(), "all", {"<|endoftext|>"}, {"<|fim_prefix|>", "<|nothing|>"}])
@pytest.mark.parametrize("disallowed", ["all", (), {"<|endoftext|>"}, {"<|fim_prefix|>"}, {"hello"}])
def test_special_tokens(name, allowed, disallowed):
    ours, theirs = both(name)
    options = {"allowed_special": allowed, "disallowed_special": disallowed}
    for text in (SPECIAL, "plain", "a<|endoftext|><|endoftext|>b"):
        try:
            want = theirs.encode(text, **options)
        except ValueError:
            for act in (ours.encode, ours.encode_to_numpy, lambda t, **o: ours.encode_batch([t], **o)):
                with pytest.raises(ValueError, match="allowed_special="):
                    act(text, **options)
            continue
        assert ours.encode(text, **options) == want
        assert ours.encode_to_numpy(text, **options).tolist() == want
        assert ours.encode_batch([text, text], **options) == [want, want]


def test_surrogates():
    ours, theirs = both("cl100k_base")
    for text in ("👍", "\ud83d\udc4d", "\ud83d", "a\ud800b"):
        assert ours.encode(text) == theirs.encode(text)


def test_ids_that_nothing_has():
    ours, _ = both("cl100k_base")
    for act in (ours.decode, ours.decode_bytes, ours.decode_tokens_bytes):
        with pytest.raises(KeyError):
            act([10**6])
    with pytest.raises(TypeError):
        ours.encode(b"bytes")
    assert issubclass(InputError, ValueError)


def test_what_has_no_bytes_is_refused(tmp_path):
    from small_tokenizers import write_word_piece

    with pytest.raises(TokenizerError, match="only byte-level BPE has"):
        Tokenizer.load(write_word_piece(tmp_path)).as_tiktoken()


@pytest.mark.parametrize("name", [*NAMES, "gpt2", "trained"])
def test_tiktoken_extends_it(name):
    """As tiktoken's readme extends an encoding: by its pattern, ranks and special tokens."""
    if name == "trained":
        ours = train_from_iterator(texts(), 400, special_tokens=["<|end|>"], progress=False).as_tiktoken()
    else:
        ours = case(name)[0].as_tiktoken()
    mine = {"<|mine|>": ours.n_vocab}
    theirs = tiktoken.Encoding(
        "more",
        pat_str=ours._pat_str,
        mergeable_ranks=ours._mergeable_ranks,
        special_tokens=ours._special_tokens | mine,
    )
    for text in texts():
        assert theirs.encode_ordinary(text) == ours.encode_ordinary(text)
    assert theirs.encode("a<|mine|>", allowed_special="all")[-1] == ours.n_vocab
