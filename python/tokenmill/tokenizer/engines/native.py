"""Engine `native`: the core's codec for the recipes that it supports exactly.

The core reads the steps of a recipe. One that it does not do exactly as Hugging Face does is an
`UnsupportedError` with the reason, and the tokenizer then runs on engine `huggingface`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tokenmill._core import Codec, spell, unspell
from tokenmill.errors import UnsupportedError
from tokenmill.tokenizer.engines.backend import (
    Docs,
    Engine,
    FlatIds,
    Spans,
    Special,
    check_text,
    is_arrow,
    list_chunks,
)
from tokenmill.tokenizer.files.hf import walk
from tokenmill.tokenizer.files.sentencepiece import DECODER, MARKER, STRIP, UNKNOWN_SURFACE
from tokenmill.tokenizer.recipe import Json, Model, Recipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.base.texts import Texts
Step = Callable[[list[str]], list[str]]


REPLACEMENT = "\ufffd"
# As Rust reads a number of two digits, which may have a sign.
_BYTE = re.compile(r"<0x(\+?[0-9A-Fa-f]|[0-9A-Fa-f]{2})>")
# Bytes gathered before a cut is searched for: large enough that the search is rare.
_CUT_BYTES = 1 << 18


def cut_parts(codec: Any, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield parts of a UTF-8 text that end where it can be cut, then the rest, which may be empty."""
    held: list[bytes] = []
    size, wanted = 0, _CUT_BYTES
    for block in blocks:
        held.append(block)
        size += len(block)
        if size < wanted:
            continue
        joined = b"".join(held)
        # The last character may be incomplete.
        whole = next((at for at in range(size - 1, max(size - 5, 0), -1) if joined[at] & 0xC0 != 0x80), size)
        cut = codec.last_cut(memoryview(joined)[:whole])
        if cut:
            yield joined[:cut]
        held, size = [joined[cut:]], size - cut
        # Without a cut, wait until the text has doubled: the search stays linear in the whole.
        wanted = max(_CUT_BYTES, 2 * size)
    yield b"".join(held)


class NativeEngine(Engine):
    """The core's codec as an `Engine`."""

    native = True

    def __init__(self, recipe: Recipe) -> None:
        body, model = recipe.hf.model if recipe.hf else {}, recipe.model
        if model is None:
            raise UnsupportedError(f"the model is {body.get('type', 'unknown')}, not BPE")
        if recipe.hf and recipe.hf.outline.get("version") == "2.0":
            raise UnsupportedError("a tokenizer.json of version 2.0, whose steps have different meanings")
        self.codec = _build_codec(recipe, model, body)
        self.id_limit: int = self.codec.id_limit
        self.family: str = self.codec.family
        kind = PieceDecoder if recipe.format == "sentencepiece" else Decoder
        self._decoder = kind(recipe, model)
        self._specials = self._decoder.skipped
        self._words = _spell_ids(recipe, model) if self.codec.spelled else None

    def encode(self, text: str | bytes, special: Special, *, template: bool) -> list[int]:
        return self.codec.encode(text, special, template)

    def encode_batch(self, docs: Any, special: Special, *, template: bool, threads: int) -> FlatIds:
        if is_arrow(docs):
            return self.codec.encode_chunks(list_chunks(docs), special, template, threads)
        docs = docs if isinstance(docs, list) else list(docs)
        return self.codec.encode_list(docs, special, template, threads)

    def encode_lists(self, docs: Docs, special: Special, *, template: bool, threads: int) -> list[list[int]]:
        return self.codec.encode_lists(docs, special, template, threads)

    def encode_framed(
        self, texts: Texts, frame: tuple[int | None, int | None], special: Special, *, threads: int
    ) -> tuple[memoryview, memoryview]:
        return self.codec.encode_framed(texts.offsets, texts.data, special, frame, threads)

    def count_batch(self, docs: Any, special: Special, *, template: bool, threads: int) -> NDArray[np.int64]:
        if is_arrow(docs):
            return super().count_batch(docs, special, template=template, threads=threads)
        return self.codec.count_list(list(docs), special, template, threads)

    def offsets(self, text: str, special: Special, *, template: bool) -> Spans:
        ids, starts, ends = self.codec.offsets(check_text(text, 0), special, template)
        return ids, list(zip(starts, ends, strict=True))

    def encode_stream(self, texts: Iterable[str], special: Special) -> Iterator[int]:
        codec = self.codec
        if not codec.can_cut:
            yield from codec.encode("".join(texts), special, template=False)
            return
        continued = False
        for part in cut_parts(codec, (check_text(text, 0).encode() for text in texts)):
            if part or not continued:
                yield from codec.encode_part(part, special, continued).tolist()
                continued = True

    def encode_part(self, data: memoryview, special: Special, *, continued: bool) -> NDArray[Any]:
        return self.codec.encode_part(data, special, continued)

    def piece_ends(self, text: str, special: Special) -> list[int]:
        return self.codec.piece_ends(text, special)

    def decode(self, ids: Sequence[int] | NDArray[Any], *, skip_special: bool) -> bytes:
        if skip_special:
            ids = [token_id for token_id in ids if token_id not in self._specials]
        if self._words is None:
            return self.codec.decode(ids)
        self.codec.decode(ids)  # raises for ids that are not in the vocabulary
        return b"".join(self._words.get(int(token_id), b"") for token_id in ids)

    def decode_text(self, ids: Sequence[int] | NDArray[Any], errors: str, *, skip_special: bool) -> str:
        if skip_special:
            ids = [token_id for token_id in ids if token_id not in self._specials]
        decoder = self._decoder
        data = self.decode(ids, skip_special=False)
        if decoder.strips:  # the space that a SentencePiece-style encoder adds
            data = data.removeprefix(b" ")
        if errors != "replace" or (decoder.joins_bytes and decoder.exceptions.isdisjoint(ids)):
            return data.decode("utf-8", errors)
        if decoder.joins_characters and decoder.exceptions.isdisjoint(ids):
            # The decoder has its own rules for bytes that are not characters.
            with suppress(UnicodeDecodeError):
                return data.decode()
        return decoder.decode(ids)

    def decode_texts(self, ids: NDArray[Any], offsets: NDArray[np.int64], errors: str) -> list[str] | None:
        if not self._decoder.joins_bytes or self._words is not None or self._decoder.exceptions:
            return None
        return self.codec.decode_batch(ids, offsets, errors)

    def token_bytes(self, token_id: int) -> bytes | None:
        return self.codec.token_bytes(token_id) if self._words is None else self._words.get(token_id)

    def id_of(self, token: bytes) -> int | None:
        if self._words is None:
            return self.codec.id_of(token)
        return next((token_id for token_id, word in self._words.items() if word == token), None)


def _spell_ids(recipe: Recipe, model: Model) -> dict[int, bytes]:
    """Return the bytes of each id, for a core that holds the model in the printable spelling of bytes."""
    suffix = model.end_of_word_suffix.encode()
    words = {i: token for i, token in enumerate(model.tokens) if token is not None}
    if suffix:
        words |= {i: word.removesuffix(suffix) + b" " for i, word in words.items() if word.endswith(suffix)}
    return words | dict(model.unreachable) | {token.id: token.content.encode() for token in recipe.added}


def _build_codec(recipe: Recipe, model: Model, body: Json) -> Codec:
    """Return the core's codec; raise `UnsupportedError` with the reason if there is none."""
    described = {
        "model": {
            "kind": model.kind,
            "ignore_merges": model.ignore_merges,
            "byte_fallback": model.byte_fallback,
            "fuse_unk": model.fuse_unk,
            "unk_id": model.unk_id,
            "end_of_word_suffix": model.end_of_word_suffix,
            "unreachable": [(token_id, token.decode()) for token_id, token in model.unreachable],
            "dropout": body.get("dropout"),
            "continuing_subword_prefix": body.get("continuing_subword_prefix"),
        },
        "added_tokens": [token.to_json() for token in recipe.added],
        "normalizer": recipe.normalizer,
        "pre_tokenizer": recipe.pre_tokenizer,
        "post_processor": recipe.post_processor,
    }
    order = model.rank_order if model.merges is None else model.merges
    in_order = order == range(len(model.tokens))  # the core detects that itself
    return Codec(json.dumps(described), model.tokens, None if in_order else order)


class Decoder:
    """The decoder of a recipe, for ids whose text is not the concatenation of their bytes.

    The strings of tokens go through the decoder's steps as they do in Hugging Face.
    """

    def __init__(self, recipe: Recipe, model: Model) -> None:
        """Raise `UnsupportedError` for a step that only Hugging Face supports."""
        self._added, self._model = recipe.added, model
        leaves = list(walk(recipe.decoder))
        # Recipes that were not read from a tokenizer.json may lack the step that joins bytes.
        unsaid = recipe.decoder is None and recipe.hf is None
        self._spaced = recipe.decoder is None and not unsaid
        self._steps = [_decode_byte_level] if unsaid else [_build_step(leaf) for leaf in leaves]
        kind = None if model.end_of_word_suffix else model.kind
        byte_level = [leaf.get("type") for leaf in leaves] == ["ByteLevel"]
        self.joins_bytes = kind == "bytes" and (byte_level or unsaid)
        # The same, with a special rule for bytes that are not characters.
        plain = leaves[:3] == DECODER and leaves[3:] in ([], [STRIP])
        self.joins_characters = kind == "chars" and plain
        self.strips = leaves[3:] == [STRIP]

    @cached_property
    def skipped(self) -> frozenset[int]:
        """Ids of special tokens."""
        return frozenset(token.id for token in self._added if token.special)

    @cached_property
    def exceptions(self) -> frozenset[int]:
        """Ids whose decoded text differs from their bytes."""
        if self.joins_bytes:
            others = self._map_others().items()
            return frozenset(i for i, token in others if _unspell(token) != token.encode())
        tokens = {i: token for i, token in enumerate(self._model.tokens) if token}
        looks = {i for i, token in tokens.items() if token[:3] == b"<0x" and _BYTE.fullmatch(token.decode())}
        if self._model.byte_fallback:
            looks -= {i for i in looks if tokens[i] == f"<0x{tokens[i][3:5].decode().upper()}>".encode()}
        others = self._map_others().items()
        return frozenset(looks | {i for i, token in others if MARKER in token or _BYTE.fullmatch(token)})

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        """Return the text of the ids, by way of the strings of their tokens."""
        tokens = [self._strings[int(token_id)] for token_id in ids]
        if self._spaced:
            return " ".join(tokens)
        for step in self._steps:
            tokens = step(tokens)
        return "".join(tokens)

    def _map_others(self) -> dict[int, str]:
        """Return the tokens that no merge produces."""
        unreachable = {i: token.decode() for i, token in self._model.unreachable}
        return unreachable | {token.id: token.content for token in self._added}

    @cached_property
    def _strings(self) -> dict[int, str]:
        """The string of each token in a `tokenizer.json`."""
        write: Callable[[bytes], str] = spell if self._model.kind == "bytes" else bytes.decode
        strings = {i: write(token) for i, token in enumerate(self._model.tokens) if token is not None}
        return strings | self._map_others()


class PieceDecoder(Decoder):
    """The decoder of a SentencePiece `.model`, by the rules of its library."""

    @cached_property
    def skipped(self) -> frozenset[int]:
        """Control tokens; the unknown one is always written."""
        return super().skipped - {self._unknown}

    @cached_property
    def exceptions(self) -> frozenset[int]:
        """The unknown token, pieces with a marker, and the byte of a space, which is never the prefix."""
        own = {token.id for token in self._added if MARKER in token.content}
        spaces = {i for i, byte in self._bytes.items() if byte == 0x20}
        return frozenset(own | spaces | {self._unknown})

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        """Return the text of the ids, control tokens as they are written."""
        out: list[str] = []
        run = bytearray()
        prefixed = not self.strips
        for token_id in map(int, ids):
            if token_id in self._bytes:
                run.append(self._bytes[token_id])
                continue
            out.append(_decode_run(run))
            run.clear()
            piece = UNKNOWN_SURFACE if token_id == self._unknown else self._strings[token_id]
            if not prefixed and not any(out) and piece.startswith(MARKER):
                piece, prefixed = piece.removeprefix(MARKER), True
            out.append(piece.replace(MARKER, " "))
        return "".join([*out, _decode_run(run)])

    @property
    def _unknown(self) -> int:
        return -1 if self._model.unk_id is None else self._model.unk_id

    @cached_property
    def _bytes(self) -> dict[int, int]:
        """The byte of each byte token."""
        tokens = self._strings.items() if self._model.byte_fallback else ()
        return {i: int(found[1], 16) for i, token in tokens if (found := _BYTE.fullmatch(token))}


def _decode_run(run: bytearray) -> str:
    """Return the text of some bytes, with one replacement for every byte that is part of no character."""
    out, rest = [], bytes(run)
    while rest:
        try:
            out.append(rest.decode())
            break
        except UnicodeDecodeError as error:
            out += [rest[: error.start].decode(), REPLACEMENT]
            rest = rest[error.start + 1 :]
    return "".join(out)


def _build_step(leaf: Json) -> Step:
    kind = leaf.get("type")
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "Strip" and isinstance(leaf.get("content"), str):
        content, start, stop = leaf["content"], int(leaf.get("start", 0)), int(leaf.get("stop", 0))
        return lambda tokens: [_strip(token, content, start, stop) for token in tokens]
    if kind == "Replace" and (leaf.get("pattern") or {}).get("String"):
        old, new = str(leaf["pattern"]["String"]), str(leaf.get("content", ""))
        return lambda tokens: [token.replace(old, new) for token in tokens]
    if kind == "Metaspace":
        marker = str(leaf.get("replacement", MARKER))
        scheme = leaf.get("prepend_scheme") or ("always" if leaf.get("add_prefix_space", True) else "never")
        first = " " if scheme == "never" else ""
        return lambda tokens: [token.replace(marker, " " if i else first) for i, token in enumerate(tokens)]
    if kind == "BPEDecoder":
        suffix = str(leaf.get("suffix", "</w>"))
        return lambda tokens: [
            *(token.replace(suffix, " ") for token in tokens[:-1]),
            *(token.replace(suffix, "") for token in tokens[-1:]),
        ]
    raise UnsupportedError(f"the decoder {kind}")


def _strip(token: str, content: str, start: int, stop: int) -> str:
    """Remove up to `start` of `content` from the left and up to `stop` from the right."""
    left = len(token) - len(token.lstrip(content))
    token = token[min(left, start) :]
    right = len(token) - len(token.rstrip(content))
    return token[: len(token) - min(right, stop)]


def _unspell(token: str) -> bytes:
    """Return the bytes of a token in the byte alphabet, or its UTF-8 if it is not in that alphabet."""
    data = unspell(token)
    return token.encode() if data is None else data


def _decode_byte_level(tokens: list[str]) -> list[str]:
    return [b"".join(map(_unspell, tokens)).decode(errors="replace")]


def _decode_byte_fallback(tokens: list[str]) -> list[str]:
    """Join runs of byte tokens to text; invalid runs become one replacement character per byte."""
    out: list[str] = []
    run = bytearray()

    def flush() -> None:
        if run:
            try:
                out.append(run.decode())
            except UnicodeDecodeError:
                out.extend([REPLACEMENT] * len(run))
            run.clear()

    for token in tokens:
        found = _BYTE.fullmatch(token)
        if found:
            run.append(int(found[1], 16))
        else:
            flush()
            out.append(token)
    flush()
    return out


_PLAIN: dict[Any, Step] = {
    "ByteLevel": _decode_byte_level,
    "ByteFallback": _decode_byte_fallback,
    "Fuse": lambda tokens: ["".join(tokens)],
}
