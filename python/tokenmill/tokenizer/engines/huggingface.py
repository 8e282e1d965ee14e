"""Engine `huggingface`: the `tokenizers` library, for tokenizers that the core does not support exactly."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tokenmill.errors import InputError, TokenizerError, explain_missing
from tokenmill.tokenizer.engines.backend import Docs, Engine, Spans, Special, check_texts
from tokenmill.tokenizer.recipe import AddedToken

if TYPE_CHECKING:
    from numpy.typing import NDArray

# HF returns an object with several arrays per document, so a batch is passed in parts.
_PART = 1024


class HuggingFaceEngine(Engine):
    """A tokenizer of `tokenizers` as an `Engine`. Truncation and padding of the file are ignored."""

    def __init__(
        self, text: str, family: str, added: tuple[AddedToken, ...], source: str, id_limit: int | None = None
    ) -> None:
        """Load the tokenizer from the text of a tokenizer.json."""
        with explain_missing("tokenizers", "hf", f"{source}: this tokenizer"):
            from tokenizers import Tokenizer
        self._class = Tokenizer
        self._json, self._added, self._source = text, added, source
        self._specials = [token.content for token in added if token.special]
        self.family = family
        # One object that reads special tokens as text and one that does not, since the flag is state.
        self._made = {True: self._load(as_text=True)}
        self.id_limit = 1 + max(self._tokens, default=0) if id_limit is None else id_limit

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._json, self.family, self._added, self._source, self.id_limit)

    def _load(self, *, as_text: bool) -> Any:
        made = self._call(self._class.from_str, self._json)
        made.no_truncation()
        made.no_padding()
        made.encode_special_tokens = as_text
        return made

    def _get(self, special: Special) -> Any:
        as_text = special == "text"
        if as_text not in self._made:
            self._made[as_text] = self._load(as_text=as_text)
        return self._made[as_text]

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call the library; its panics are `BaseException`s that an ordinary `except` would miss."""
        try:
            return function(*arguments, **options)
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:
            raise TokenizerError(f"{self._source}: Hugging Face tokenizers rejects it: {error}") from error

    def encode_lists(self, docs: Docs, special: Special, *, template: bool, threads: int) -> list[list[int]]:
        del threads  # HF has its own pool
        texts, encode = check_texts(docs, special, self._specials), self._get(special).encode_batch_fast
        rows: list[list[int]] = []
        for start in range(0, len(texts), _PART):
            part = self._call(encode, texts[start : start + _PART], add_special_tokens=template)
            rows += (encoding.ids for encoding in part)
        return rows

    def offsets(self, text: str, special: Special, *, template: bool) -> Spans:
        (text,) = check_texts([text], special, self._specials)
        found = self._call(self._get(special).encode, text, add_special_tokens=template)
        return list(found.ids), [tuple(span) for span in found.offsets]

    def decode(self, ids: Sequence[int] | NDArray[Any], *, skip_special: bool) -> bytes:
        listed = [int(token_id) for token_id in ids]
        unknown = next((token_id for token_id in listed if not 0 <= token_id < self.id_limit), None)
        if unknown is not None:
            raise InputError(f"id {unknown} is not in the vocabulary of {self._source}")
        text = self._call(self._made[True].decode, listed, skip_special_tokens=skip_special)
        return str(text).encode()

    @cached_property
    def _ids(self) -> dict[str, int]:
        return dict(self._made[True].get_vocab(with_added_tokens=True))

    @cached_property
    def _tokens(self) -> dict[int, str]:
        return {token_id: token for token, token_id in self._ids.items()}

    def token_bytes(self, token_id: int) -> bytes | None:
        token = self._tokens.get(token_id)
        return None if token is None else token.encode()

    def id_of(self, token: bytes) -> int | None:
        return self._ids.get(token.decode(errors="replace"))


@contextlib.contextmanager
def limit_threads(threads: int) -> Iterator[None]:
    """Limit HF's thread pool to this many threads if it is created within this context.

    Otherwise the pool uses every core of the host. The variable is restored, because the next job would
    treat it as a choice of the user.
    """
    variable = "RAYON_NUM_THREADS"
    before = os.environ.get(variable)
    os.environ[variable] = str(threads)
    try:
        yield
    finally:
        del os.environ[variable]
        if before is not None:
            os.environ[variable] = before
