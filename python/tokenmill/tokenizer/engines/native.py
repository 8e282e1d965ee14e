"""The native engine: the core's codec for the recipes that it provably supports.

The core reads the steps of a recipe. One that it does not do exactly as Hugging Face does is an
`UnsupportedError` with the reason, and the tokenizer then runs on engine `huggingface`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tokenmill._core import Codec
from tokenmill.errors import UnsupportedError
from tokenmill.tokenizer.batch import check_text, is_arrow, list_chunks
from tokenmill.tokenizer.engines.backend import Engine
from tokenmill.tokenizer.engines.decoding import Decoder, PieceDecoder
from tokenmill.tokenizer.streams import cut_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.base.texts import Texts
    from tokenmill.tokenizer.engines.backend import Docs, FlatIds, Spans, Special
    from tokenmill.tokenizer.recipe import Json, Model, Recipe


class NativeEngine(Engine):
    """The core's codec as an `Engine`."""

    frames = takes_parts = needs_parity_check = True

    def __init__(self, recipe: Recipe) -> None:
        body, model = recipe.hf.model if recipe.hf else {}, recipe.model
        if model is None:
            raise UnsupportedError(f"the model is {body.get('type', 'unknown')}, not BPE")
        if recipe.hf and recipe.hf.outline.get("version") == "2.0":
            raise UnsupportedError("a tokenizer.json of version 2.0, whose steps have other meanings")
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
        for part, last in cut_parts(codec, (check_text(text, 0).encode() for text in texts)):
            if part or (last and not continued):
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
        if decoder.strips:  # the space that a SentencePiece-style encoder put first
            data = data.removeprefix(b" ")
        if errors != "replace" or (decoder.joins_bytes and decoder.exceptions.isdisjoint(ids)):
            return data.decode("utf-8", errors)
        if decoder.joins_characters and decoder.exceptions.isdisjoint(ids):
            # The decoder has rules of its own for bytes that are not characters.
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
    in_order = order == range(len(model.tokens))  # the core sees that for itself
    return Codec(json.dumps(described), model.tokens, None if in_order else order)
