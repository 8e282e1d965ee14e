"""Strategy `fast`: Hugging Face `tokenizers` behind the same class, for what the core does not prove."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.errors import InputError, MissingExtraError, TokenizerError
from tokenmill.engine import arrow
from tokenmill.engine.backends.backend import BorrowedEngine
from tokenmill.engine.backends.text import check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from tokenmill.engine.backends.backend import Special
    from tokenmill.engine.recipe import AddedToken

# HF returns an object of several arrays per document, so a batch is fed to it in parts.
_PART = 1024


class FastEngine(BorrowedEngine):
    """An HF tokenizer as an `Engine`."""

    def __init__(
        self,
        text: str,
        family: str,
        added: tuple[AddedToken, ...],
        source: str,
        id_limit: int | None = None,
    ) -> None:
        """`text` is that of a tokenizer.json, whose truncation and padding are left aside."""
        self._json = text
        self._added, self._source = added, source
        self._specials = [token for token in added if token.special]
        self.family = family
        # One object for each reading of special tokens; the second is made when somebody asks for it, since
        # a large vocabulary takes a tenth of a second.
        self._text, self._parse = self._build(as_text=True), None
        if id_limit is None:
            id_limit = 1 + max(self._text.get_vocab(with_added_tokens=True).values(), default=0)
        self.id_limit: int = id_limit

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._json, self.family, self._added, self._source, self.id_limit)

    def _build(self, *, as_text: bool) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtraError.of("tokenizers", "hf", f"{self._source}: this tokenizer") from error
        made = guarded(lambda: Tokenizer.from_str(self._json), self._source)
        made.no_truncation()
        made.no_padding()
        made.encode_special_tokens = as_text
        return made

    def encode(self, text: str | bytes, special: Special, *, template: bool) -> list[int]:
        """The ids of one text."""
        words = self._checked([text], special)
        encoding = guarded(
            lambda: self._engine(special).encode(words[0], add_special_tokens=template), self._source
        )
        return list(encoding.ids)

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
            arrow.chunks_of(docs)
            docs = docs.to_pylist()
        dtype = np.uint16 if self.id_limit <= 1 << 16 else np.uint32
        parts, lengths = [np.empty(0, dtype)], [0]
        for ids in self._each(list(docs), special, template=template):
            parts.append(np.asarray(ids, dtype))
            lengths.append(len(parts[-1]))
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
        return list(self._each(docs, special, template=template))

    def _each(self, docs: list[str | bytes], special: Special, *, template: bool) -> Iterator[list[int]]:
        words = self._checked(docs, special)
        for start in range(0, len(words), _PART):
            part = words[start : start + _PART]
            engine = self._engine(special)
            call = partial(engine.encode_batch_fast, part, add_special_tokens=template)
            for encoding in guarded(call, self._source):
                yield encoding.ids

    def offsets(
        self, text: str, special: Special, *, template: bool
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids and their places, as HF gives them."""
        words = self._checked([text], special)
        encoding = guarded(
            lambda: self._engine(special).encode(words[0], add_special_tokens=template), self._source
        )
        return list(encoding.ids), [tuple(place) for place in encoding.offsets]

    def decode(self, ids: Sequence[int] | NDArray[Any], *, skip_special: bool) -> bytes:
        """The text of the ids, in UTF-8; HF's decoder may tidy white space."""
        listed = [int(token_id) for token_id in ids]
        unknown = [token_id for token_id in listed if not 0 <= token_id < self.id_limit]
        if unknown:
            raise InputError(f"id {unknown[0]} is not in the vocabulary of {self._source}")
        text: str = guarded(lambda: self._text.decode(listed, skip_special_tokens=skip_special), self._source)
        return text.encode()

    def token_bytes(self, token_id: int) -> bytes | None:
        """The string of one id in the vocabulary, in UTF-8."""
        token: str | None = self._text.id_to_token(token_id)
        return None if token is None else token.encode()

    def id_of(self, token: bytes) -> int | None:
        """The id of a string of the vocabulary."""
        found: int | None = self._text.token_to_id(token.decode(errors="replace"))
        return found

    def _engine(self, special: Special) -> Any:
        if special == "text":
            return self._text
        if self._parse is None:
            self._parse = self._build(as_text=False)
        return self._parse

    def _checked(self, docs: list[str | bytes], special: Special) -> list[str]:
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


def guarded(call: Callable[[], Any], where: str) -> Any:
    """Runs a call of HF; its panics are `BaseException`s that an ordinary `except` would miss."""
    try:
        return call()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        raise TokenizerError(f"{where}: Hugging Face tokenizers refuses it: {error}") from error
