"""SentencePiece BPE `.model` files: a small protobuf, read without the library where possible."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any

from tokenmill._core import Tokens
from tokenmill.errors import TokenizerError, explain_missing
from tokenmill.tokenizer.recipe import AddedToken, Json, Model, Recipe, make_printable

_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
# How a space is written.
MARKER = "▁"
TO_MARKER: Json = {"type": "Replace", "pattern": {"String": " "}, "content": MARKER}
# The steps of its decoder, the last only after a prefix.
DECODER: list[Json] = [
    {"type": "Replace", "pattern": {"String": MARKER}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
]
STRIP: Json = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
# What the library writes for its unknown token.
UNKNOWN_SURFACE = " \u2047 "
_KINDS = {1: "Unigram", 2: "BPE", 3: "word", 4: "character"}


@dataclass(slots=True)
class _Proto:
    pieces: list[tuple[str, float, int]] = field(default_factory=list)
    model_type: int = 1
    byte_fallback: bool = False
    normalizer: str = ""
    charsmap: bytes = b""
    dummy_prefix: bool = True
    remove_extra: bool = True
    escape: bool = True
    suffix_marker: bool = False
    unknown_surface: str = UNKNOWN_SURFACE


def load_file(path: Path) -> Recipe:
    """Return the recipe of a `.model` file, a serialized `ModelProto`."""
    data, source = path.read_bytes(), str(path)
    try:
        proto = _parse(data)
    except (IndexError, ValueError, AttributeError, TypeError, struct.error) as error:
        raise TokenizerError(
            f"{source}: not a complete SentencePiece model ({error}); download it again"
        ) from error
    if not proto.pieces:
        raise TokenizerError(f"{source}: contains no pieces; expected a SentencePiece .model file")
    reason = _explain_library(proto)
    if reason:
        control = ((piece, i) for i, (piece, _, kind) in enumerate(proto.pieces) if kind == _CONTROL)
        added, library = tuple(starmap(AddedToken, control)), LibraryModel(data, source)
        reason = f"{reason}: the library itself runs it"
        return Recipe(source, "sentencepiece", None, added, python=library, reason=reason)
    return _build_recipe(proto, source)


class LibraryModel:
    """A model that only the library runs exactly: Unigram, or with a normalizer. Picklable."""

    def __init__(self, data: bytes, source: str) -> None:
        self.identity = data
        self._source = source
        self.vocab_size = len(self._processor)

    def __reduce__(self) -> tuple[type[LibraryModel], tuple[bytes, str]]:
        return type(self), (self.identity, self._source)

    @cached_property
    def _processor(self) -> Any:
        with explain_missing("sentencepiece", "sentencepiece", f"{self._source}: this model"):
            import sentencepiece
        try:
            return sentencepiece.SentencePieceProcessor(model_proto=self.identity)
        except Exception as error:
            raise TokenizerError(f"{self._source}: SentencePiece cannot load it: {error}") from error

    def encode(self, text: str) -> list[int]:
        """Return the ids of one text; strings of control pieces are text."""
        return list(self._processor.encode(text))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the library's text, in which control pieces do not appear."""
        return str(self._processor.decode(list(ids)))

    def get_vocab(self) -> dict[str, int]:
        """Return each piece and its id."""
        return {self._processor.id_to_piece(i): i for i in range(self.vocab_size)}

    def convert_ids_to_tokens(self, token_id: int) -> str | None:
        """Return the piece of one id."""
        return self._processor.id_to_piece(token_id) if 0 <= token_id < self.vocab_size else None


def _explain_library(proto: _Proto) -> str:
    """Return why the core cannot run the model exactly as the library does, or an empty string."""
    if proto.model_type != 2:
        return f"a SentencePiece {_KINDS.get(proto.model_type, 'unknown')} model"
    words = [(piece, score) for piece, score, kind in proto.pieces if kind == _NORMAL and len(piece) > 1]
    single = {piece for piece, _, kind in proto.pieces if kind in {_NORMAL, _USER} and len(piece) == 1}
    of_bytes = {piece for piece, _, kind in proto.pieces if kind == _BYTE}
    whole = {f"<0x{byte:02X}>" for byte in range(256)}
    facts = {
        f"normalizes text with {proto.normalizer or 'a table of its own'}": bool(proto.charsmap),
        "removes white space from texts": proto.remove_extra,
        "does not write spaces as ▁": not proto.escape,
        "writes ▁ after words": proto.suffix_marker,
        "has its own text for the unknown token": proto.unknown_surface != UNKNOWN_SURFACE,
        "has unused pieces": any(kind == _UNUSED for _, _, kind in proto.pieces),
        "has pieces of equal score": _ties_matter(words),
        "has pieces with characters that are not pieces": not {char for piece, _ in words for char in piece}
        <= single,
        "has no piece for the space": MARKER not in single,
        "lacks byte pieces": proto.byte_fallback and not whole <= of_bytes,
    }
    return next((fact for fact, holds in facts.items() if holds), "")


def _ties_matter(words: list[tuple[str, float]]) -> bool:
    """Return True if equal scores matter: the library then merges from the left, the core by id.

    Llama and Mistral give one score, the lowest, to all runs of markers, so that whatever else merges has
    done so before: then it is enough to see that runs become the same either way.
    """
    lowest = min((score for _, score in words), default=0.0)
    tied = [piece for piece, score in words if score == lowest]
    others = [score for _, score in words if score != lowest]
    if len(set(others)) < len(others) or (len(tied) > 1 and any(piece.strip(MARKER) for piece in tied)):
        return True
    lengths = [len(piece) for piece in tied] if len(tied) > 1 else []
    rank = {length: place for place, length in enumerate(lengths)}
    everywhere = range(2, 4 * max(lengths, default=0))
    return any(_merge(length, rank) != _merge(length, dict.fromkeys(rank, 0)) for length in everywhere)


def _merge(length: int, rank: dict[int, int]) -> list[int]:
    """Return the parts of a run after merging pairs of the lowest rank, leftmost first."""
    parts = [1] * length
    while True:
        ranks = [rank.get(left + right, len(rank)) for left, right in pairwise(parts)]
        best = min(ranks, default=len(rank))
        if best == len(rank):
            return parts
        at = ranks.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def _build_recipe(proto: _Proto, source: str) -> Recipe:
    tokens: list[tuple[bytes, int]] = []
    ranked: list[tuple[float, int]] = []
    added: list[AddedToken] = []
    unk = None
    for i, (piece, score, kind) in enumerate(proto.pieces):
        if kind in {_NORMAL, _USER, _BYTE}:
            tokens.append((piece.encode(), i))
        if kind in {_CONTROL, _UNKNOWN}:
            added.append(AddedToken(piece, i))
            unk = i if kind == _UNKNOWN else unk
        elif kind == _USER and " " not in piece:
            # One with a space is never found, since the text has markers by then.
            added.append(AddedToken(piece, i, special=False, piece=True))
        elif kind == _NORMAL and len(piece) > 1:
            ranked.append((-score, i))
    # HF's Prepend acts after every added token; SentencePiece puts its prefix at the very start only.
    prepend = {"type": "Prepend", "prepend": MARKER, "scheme": "first"}
    return Recipe(
        source=source,
        format="sentencepiece",
        model=Model(
            "chars",
            Tokens(tokens, make_printable(source)),
            rank_order=tuple(i for _, i in sorted(ranked)),
            byte_fallback=proto.byte_fallback,
            fuse_unk=True,
            unk_id=unk,
        ),
        added=tuple(added),
        normalizer={
            "type": "Sequence",
            "normalizers": [*([prepend] if proto.dummy_prefix else []), TO_MARKER],
        },
        decoder={"type": "Sequence", "decoders": [*DECODER, *([STRIP] if proto.dummy_prefix else [])]},
    )


def to_hf_normalizer(normalizer: Json | None) -> Json | None:
    """Return the normalizer in HF's form, whose `Prepend` also acts after special tokens."""
    if normalizer is None:
        return None
    steps = normalizer.get("normalizers")
    if isinstance(steps, list):
        return {**normalizer, "normalizers": [to_hf_normalizer(step) for step in steps]}
    return {key: value for key, value in normalizer.items() if key != "scheme"}


# The numbers of the fields that are read of TrainerSpec and NormalizerSpec.
_TRAINER = {3: "model_type", 24: "suffix_marker", 35: "byte_fallback", 44: "unknown_surface"}
_NORMALIZER = {1: "normalizer", 2: "charsmap", 3: "dummy_prefix", 4: "remove_extra", 5: "escape"}


def _parse(data: bytes) -> _Proto:
    """Read a ModelProto: field 1 are pieces, 2 is the trainer_spec, 3 the normalizer_spec."""
    proto = _Proto()
    for number, value in _read_fields(data):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            fields = dict(_read_fields(value))
            piece, score, kind = fields.get(1, b""), fields.get(2, bytes(4)), fields.get(3, _NORMAL)
            proto.pieces.append((piece.decode(), struct.unpack("<f", score)[0], int(kind)))
        elif number in {2, 3}:
            known = _TRAINER if number == 2 else _NORMALIZER
            for field_number, found in _read_fields(value):
                name = known.get(field_number)
                if name is not None:
                    kind = type(getattr(proto, name))
                    if isinstance(found, bytes) != (kind in {str, bytes}):
                        raise ValueError(f"{name} has the wrong type")
                    setattr(proto, name, found.decode() if kind is str else kind(found))
    return proto


def _read_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the `(field number, value)` pairs of a message: varints as int, everything else as its bytes."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _read_varint(data, at)
            yield tag >> 3, value
            continue
        size = 8 if wire == 1 else 4
        if wire == 2:
            size, at = _read_varint(data, at)
        elif wire not in {1, 5}:
            raise ValueError(f"wire type {wire} at byte {at}")
        if at + size > len(data):
            raise ValueError(f"ends inside a field at byte {at}")
        yield tag >> 3, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError(f"an endless number at byte {at}")
