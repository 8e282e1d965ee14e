"""Damaged vocabulary files: any error is one of ours, and whatever loads can encode."""

import base64
import json
import struct
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmill import Tokenizer, TokenmillError
from tokenmill._core import spell

VOCABULARY = {spell(bytes([byte])): byte for byte in range(256)} | {"th": 256, "the": 257}
HF = {
    "version": "1.0",
    "added_tokens": [{"content": "<s>", "id": 258, "special": True, "lstrip": True, "normalized": False}],
    "normalizer": {
        "type": "Sequence",
        "normalizers": [{"type": "NFC"}, {"type": "Strip", "strip_left": True}],
    },
    "pre_tokenizer": {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": r"\d+|\s+"}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        ],
    },
    "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": VOCABULARY, "merges": [["t", "h"], ["th", "e"]], "unk_token": None},
}
TIKTOKEN = b"".join(base64.b64encode(bytes([byte])) + f" {byte}\n".encode() for byte in range(256))
JUNK = st.none() | st.booleans() | st.integers(-5, 2**33) | st.text(max_size=5) | st.just([]) | st.just({})


def spm_model():
    def field(number, data):
        return bytes([number << 3 | 2]) + _varint(len(data)) + data

    pieces = ["<unk>", "▁", "a", "b", "ab", "▁a", *(f"<0x{byte:02X}>" for byte in range(256))]
    out = b""
    for rank, piece in enumerate(pieces):
        kind = 2 if rank == 0 else 6 if piece.startswith("<0x") else 1
        out += field(
            1, field(1, piece.encode()) + b"\x15" + struct.pack("<f", -rank) + b"\x18" + bytes([kind])
        )
    out += field(2, b"\x18\x02" + _varint(35 << 3) + b"\x01")
    return out + field(3, field(1, b"identity") + b"\x20\x00")


def _varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def paths(value, here=()):
    yield here
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(items)[:6]:
        yield from paths(child, (*here, key))


def replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def loads_or_refuses(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tokenizer = Tokenizer.load(path, **options)
            ids = tokenizer.encode("the a <s> 12\n안\0", special="parse")
        except TokenmillError as error:
            assert str(error)  # noqa: PT017
            return False
    assert all(0 <= i < tokenizer.vocab_size for i in ids)
    return True


@given(data=st.data())
def test_a_changed_tokenizer_json(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "tokenizer.json"
    changed = HF
    for _ in range(data.draw(st.integers(1, 3))):
        changed = replaced(
            changed, data.draw(st.sampled_from(list(paths(changed))[1:] or [()])), data.draw(JUNK)
        )
        if not isinstance(changed, dict):
            break
    path.write_text(json.dumps(changed))
    loads_or_refuses(path)


def cut_and_flip(data, whole):
    body = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for place, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(whole)), st.integers(0, 255)), max_size=4)
    ):
        if place < len(body):
            body[place] = byte
    return bytes(body)


@pytest.mark.parametrize(
    ("name", "whole", "options"),
    [
        ("x.tiktoken", TIKTOKEN, {"pattern": "gpt2"}),
        ("tokenizer.json", json.dumps(HF).encode(), {}),
        ("x.model", spm_model(), {}),
        ("y.model", b"minbpe v1\n\\w+|.\n1\n<s> 258\n116 104\n256 101\n", {}),
    ],
)
@given(data=st.data())
def test_damaged_bytes(tmp_path_factory, name, whole, options, data):
    path = tmp_path_factory.mktemp("fuzz") / name
    path.write_bytes(cut_and_flip(data, whole))
    loads_or_refuses(path, **options)


def test_the_bases_are_sound(tmp_path):
    for name, whole in [("tokenizer.json", json.dumps(HF).encode()), ("x.model", spm_model())]:
        (tmp_path / name).write_bytes(whole)
        assert loads_or_refuses(tmp_path / name)
