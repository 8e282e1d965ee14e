"""Bad vocabularies and bad texts: the right answer, or an error that says what, where and what to do."""

import base64
import io
import json

import numpy as np
import pyarrow as pa
import pytest
import tokenizers

from conftest import small_recipe
from tokenmill import Tokenizer
from tokenmill._core import spell
from tokenmill.errors import InputError, TokenizerError, TokenizerNotFoundError, TokenmillError


def hf(**changes):
    vocabulary = {spell(bytes([byte])): byte for byte in range(256)} | {"th": 256}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [["t", "h"]]}
    data = {
        "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": {"type": "ByteLevel"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": model | changes.pop("model", {}),
    }  # fmt: skip
    return data | changes


def saved(tmp_path, data, name="tokenizer.json"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return path


def refused(path, match, **options):
    with pytest.raises(TokenmillError, match=match) as caught:
        Tokenizer.load(path, **options)
    assert str(path) in str(caught.value), "the message says where"
    assert isinstance(caught.value, (ValueError, OSError)), "an ordinary except works"


def test_the_base_is_sound(tmp_path):
    assert Tokenizer.load(saved(tmp_path, hf())).encode("the") == [256, 101]


def test_a_missing_file():
    for name in ("/no/such/tokenizer.json", "no/such/dir/x.tiktoken", "./missing.model"):
        with pytest.raises(TokenizerNotFoundError, match="no such file") as caught:
            Tokenizer.load(name)
        assert isinstance(caught.value, FileNotFoundError)


def test_an_empty_directory(tmp_path):
    refused(tmp_path, "contains no tokenizer")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b'{"model": ', r":1:11: not valid JSON"),
        (b"[1, 2]", "expected a JSON object, found "),
        (b"\xff\xfe{}", "cannot be read as UTF-8"),
        (b"{}", "has no 'model'"),
        (b'{"model": null}', "has no 'model'"),
        (b"[" * 100_000, "JSON"),
    ],
)
def test_broken_json(tmp_path, data, match):
    refused(saved(tmp_path, data), match)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        ({"merges": [["t", "zz"]]}, r"merges\[0\].*'zz' is not in the vocabulary"),
        ({"merges": [["t", "e"]]}, r"'te' is not in the vocabulary.*same training"),
        ({"merges": ["t h e"]}, "expected two tokens"),
        ({"merges": 3}, "expected a list"),
        ({"vocab": {}}, "missing or empty"),
        ({"vocab": {"a": 0, "b": 0}, "merges": []}, "belongs to both"),
        ({"vocab": {"a": 2**32 - 1}, "merges": []}, "4294967295; expected an integer from 0"),
        ({"vocab": {"a": -1}, "merges": []}, "-1"),
        ({"vocab": {"a": 1.5}, "merges": []}, "1.5"),
        ({"vocab": {"a": True}, "merges": []}, "the id true"),
    ],
)
def test_a_vocabulary_that_contradicts_itself(tmp_path, model, match):
    refused(saved(tmp_path, hf(model=model)), match)


@pytest.mark.parametrize(
    ("added", "match"),
    [
        ([{"content": "<a>", "id": 300}, {"content": "<b>", "id": 300}], "belongs to both"),
        ([{"content": "<a>"}], "expected 'content' and 'id'"),
        ([{"content": "<a>", "id": 2**32 - 1}], "4294967295"),
        ({"a": 1}, "expected a list"),
    ],
)
def test_bad_added_tokens(tmp_path, added, match):
    refused(saved(tmp_path, hf(added_tokens=added)), match)


@pytest.mark.parametrize("ids", [(900, 901), (257, 300), (900, 300)])
def test_added_tokens_have_the_ids_of_hugging_face(tmp_path, ids):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    listed = [{"content": f"<{i}>", "id": i, "special": True, **flags} for i in ids]
    path = saved(tmp_path, hf(added_tokens=listed, decoder=None))
    with pytest.warns(UserWarning, match="has the id .* in the file"):
        tokenizer = Tokenizer.load(path)
    theirs = tokenizers.Tokenizer.from_file(str(path))
    assert tokenizer.special_tokens == {f"<{i}>": theirs.token_to_id(f"<{i}>") for i in ids}


@pytest.mark.parametrize("pattern", ["(", "[a", r"\p{Nonsense}", "(?<=a", "*"])
def test_a_pattern_that_does_not_compile(tmp_path, pattern):
    lines = b"".join(base64.b64encode(bytes([byte])) + f" {byte}\n".encode() for byte in range(256))
    refused(saved(tmp_path, lines, "x.tiktoken"), "pattern", pattern=pattern)


def test_a_catastrophic_pattern_ends_with_an_error(tmp_path):
    recipe = small_recipe(pattern=r"(?=(a+)+$)a|(x+x+)+(?=y)\b|[^a]")
    tokenizer = Tokenizer(recipe)
    with pytest.raises(TokenmillError, match="too costly"):
        tokenizer.encode("x" * 5000)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"IQ== 0\nIg==", ":2: expected 'base64 rank'"),
        (b"IQ== 0\nI", ":2:"),
        (b"IQ== zero\n", ":1:"),
        (b"!!!! 0\n", ":1:"),
        (b"IQ== 0\nIg== 0\n", "belongs to both"),
        (b"IQ== 0\nIQ== 1\n", "has the ranks 0 and 1"),
        (b"IQ== 4294967295\n", "4294967295"),
        (b"", "empty"),
        (b"IQ== 0\n", "missing|byte"),
    ],
)
def test_a_damaged_tiktoken_file(tmp_path, data, match):
    refused(saved(tmp_path, data, "x.tiktoken"), match, pattern="gpt2")


def test_an_unknown_tiktoken_file_needs_a_pattern(tmp_path):
    refused(saved(tmp_path, b"IQ== 0\n", "mine.tiktoken"), "pass pattern=")


@pytest.mark.parametrize(
    ("data", "match"),
    [(b"", "no pieces"), (b"\x0a\x05ab", "complete"), (b"\xff" * 40, "complete"), (b"\x08\x01", "no pieces")],
)
def test_a_damaged_sentencepiece_model(tmp_path, data, match):
    refused(saved(tmp_path, data, "x.model"), match)


@pytest.mark.parametrize(
    "text", ["minbpe v1\n\nx\n", "minbpe v1\n\n0\n1 999\n", "minbpe v1\n\n0\n1\n", "minbpe v1\n\n2\na 5\n"]
)
def test_a_damaged_minbpe_model(tmp_path, text):
    refused(saved(tmp_path, text.encode(), "x.model"), ":[0-9]+:")


def test_an_unknown_kind_of_file(tmp_path):
    refused(saved(tmp_path, b"x", "x.bin"), "unknown kind")
    with pytest.raises(TokenizerError, match="not a tokenizer that tokenmill can read"):
        Tokenizer.load(3)


def test_lone_surrogates(tok):
    with pytest.raises(InputError, match=r"document 1: .* at character 2"):
        tok.encode_batch(["x", "ab\udfff"])


def test_invalid_utf8(tok):
    with pytest.raises(InputError, match=r"invalid UTF-8 at byte 3 \(0xFF\)"):
        tok.encode(b"abc\xff")
    with pytest.raises(InputError, match="document 1: invalid UTF-8 at byte 0"):
        tok.encode_batch([b"x", b"\x80"])
    with pytest.raises(InputError, match="document 1: invalid UTF-8"):
        tok.encode_batch(pa.array([b"x", b"\xc3"], pa.binary()))


def test_nulls_and_other_arrays(tok):
    with pytest.raises(InputError, match="document 1 is null"):
        tok.encode_batch(pa.array(["x", None]))
    with pytest.raises(InputError, match="document 3 is null"):
        tok.encode_batch(pa.chunked_array([["x", "y"], ["z", None]]))
    with pytest.raises(InputError, match="int64"):
        tok.encode_batch(pa.array([1, 2]))


def test_a_damaged_arrow_array_is_no_crash(tok):
    offsets = np.array([0, 9, 5], np.int32)
    array = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"hello")])
    with pytest.raises(InputError, match=r"document 0: .* outside its data"):
        tok.encode_batch(array)


def test_empty_and_nul(tok):
    assert tok.encode("") == []
    assert tok.encode(b"") == []
    assert tok.decode([]) == ""
    assert tok.encode("\0") == [0]
    assert tok.decode(tok.encode("a\0b")) == "a\0b"
    assert tok.encode_batch(["", ""]).offsets.tolist() == [0, 0, 0]


@pytest.mark.parametrize("char", ["a", " ", "\n", ".", "한"])
def test_a_piece_of_8_mib(tok, char):
    text = char * ((8 << 20) // len(char.encode()))
    batch = tok.encode_batch([text], threads=2)
    assert tok.decode_bytes(batch.ids) == text.encode()


def test_python_that_comes_with_a_tokenizer_is_not_run(tmp_path, monkeypatch):
    """Even if a user or a pipe would answer yes to transformers' question."""
    pytest.importorskip("transformers", exc_type=ImportError)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    ran = tmp_path / "ran"
    folder = tmp_path / "stranger"
    folder.mkdir()
    (folder / "stranger.py").write_text(f"open({str(ran)!r}, 'w').close()\nclass Theirs: pass\n")
    code = {"auto_map": {"AutoTokenizer": ["stranger.Theirs", None]}}
    saved(folder, {"tokenizer_class": "Theirs"} | code, "tokenizer_config.json")
    saved(folder, {"model_type": "stranger"} | code, "config.json")
    refused(folder, "not run without your consent")
    assert not ran.exists()
