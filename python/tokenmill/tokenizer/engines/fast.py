"""Strategy `fast`: Hugging Face `tokenizers` behind the same class, for what the core does not prove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.errors import InputError
from tokenmill.tokenizer import arrow
from tokenmill.tokenizer.engines.backend import Engine
from tokenmill.tokenizer.engines.hf_api import open_hf
from tokenmill.tokenizer.engines.text import check_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tokenmill.tokenizer.engines.backend import Special
    from tokenmill.tokenizer.recipe import AddedToken

# HF returns an object of several arrays per document, so a batch is fed to it in parts.
_PART = 1024


class FastEngine(Engine):
    """An HF tokenizer as an `Engine`."""

    def __init__(
        self, text: str, family: str, added: tuple[AddedToken, ...], source: str, id_limit: int | None = None
    ) -> None:
        """`text` is that of a tokenizer.json, whose truncation and padding are ignored."""
        self._json = text
        self._added, self._source = added, source
        self._specials = [token for token in added if token.special]
        self.family = family
        self._hf = open_hf(text, source)
        self.id_limit: int = self._hf.id_limit if id_limit is None else id_limit

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._json, self.family, self._added, self._source, self.id_limit)

    def encode(self, text: str | bytes, special: Special, *, template: bool) -> list[int]:
        """The ids of one text."""
        words = self._check([text], special)
        return list(self._hf.encode_lists(words, as_text=special == "text", template=template)[0])

    def encode_batch(
        self,
        docs: Any,
        special: Special,
        *,
        template: bool,
        threads: int,  # noqa: ARG002 - HF has its own pool
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The ids of many texts, flat, with offsets."""
        if arrow.is_flat(docs):
            arrow.list_chunks(docs)
            docs = docs.to_pylist()
        dtype = np.uint16 if self.id_limit <= 1 << 16 else np.uint32
        parts, lengths = [np.empty(0, dtype)], [0]
        for words in self._split(list(docs), special):
            for ids in self._hf.encode_arrays(words, as_text=special == "text", template=template):
                parts.append(ids.astype(dtype))
                lengths.append(len(ids))
        return np.concatenate(parts), np.cumsum(np.asarray(lengths, np.int64))

    def encode_lists(
        self,
        docs: list[str | bytes],
        special: Special,
        *,
        template: bool,
        threads: int,  # noqa: ARG002 - HF has its own pool
    ) -> list[list[int]]:
        """The ids of many texts, one list for each."""
        parts = self._split(docs, special)
        rows = (self._hf.encode_lists(words, as_text=special == "text", template=template) for words in parts)
        return [ids for part in rows for ids in part]

    def _split(self, docs: list[str | bytes], special: Special) -> Iterator[list[str]]:
        words = self._check(docs, special)
        return (words[start : start + _PART] for start in range(0, len(words), _PART))

    def offsets(
        self, text: str, special: Special, *, template: bool
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids and their places, as HF gives them."""
        words = self._check([text], special)
        return self._hf.offsets(words[0], as_text=special == "text", template=template)

    def decode(self, ids: Sequence[int] | NDArray[Any], *, skip_special: bool) -> bytes:
        """The text of the ids, in UTF-8; HF's decoder may tidy white space."""
        listed = [int(token_id) for token_id in ids]
        unknown = [token_id for token_id in listed if not 0 <= token_id < self.id_limit]
        if unknown:
            raise InputError(f"id {unknown[0]} is not in the vocabulary of {self._source}")
        return self._hf.decode(listed, skip_special=skip_special).encode()

    def token_bytes(self, token_id: int) -> bytes | None:
        """The string of one id in the vocabulary, in UTF-8."""
        token = self._hf.find_token(token_id)
        return None if token is None else token.encode()

    def id_of(self, token: bytes) -> int | None:
        """The id of a string of the vocabulary."""
        return self._hf.id_of(token.decode(errors="replace"))

    def _check(self, docs: list[str | bytes], special: Special) -> list[str]:
        words = [check_text(doc, place) for place, doc in enumerate(docs)]
        if special == "forbid":
            for place, word in enumerate(words):
                for token in self._specials:
                    if token.content in word:
                        raise InputError(
                            f"document {place}: the text holds the special token {token.content!r} at "
                            f"character {word.index(token.content)} and special='forbid'; use "
                            "special='text' or 'parse'"
                        )
        return words
