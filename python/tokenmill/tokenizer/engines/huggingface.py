"""Engine `huggingface`: the `tokenizers` library, for tokenizers that the core does not support exactly."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import InputError, TokenizerError, explain_missing
from tokenmill.tokenizer.engines.backend import Docs, Engine, Spans, Special, check_texts
from tokenmill.tokenizer.files.names import TOKENIZER
from tokenmill.tokenizer.recipe import AddedToken

if TYPE_CHECKING:
    from numpy.typing import NDArray

# HF returns an object with several arrays per document, so a batch is passed in parts.
_PART = 1024
# Version 1 leaves out rarely used features, such as patterns that need a backtracking engine.
_HINT = "; version 0.x may support it: pip install 'tokenizers<1'"


class HfTokenizer:
    """The calls of `tokenizers` that we make, on versions 0.20 to 1.x.

    `as_text` encodes the strings of special tokens as text. Truncation and padding of the file are ignored.
    """

    def __init__(self, text: str, source: str) -> None:
        with explain_missing("tokenizers", "hf", f"{source}: this tokenizer"):
            from tokenizers import __version__
        self._json, self._source = text, source
        self._modern = int(__version__.partition(".")[0]) >= 1
        # Version 0.x has one object for each reading of special tokens, since the flag is state.
        self._made = {True: self._load(as_text=True)}

    def _load(self, *, as_text: bool) -> Any:
        from tokenizers import Tokenizer

        if self._modern:  # it can only be loaded from a file
            with tempfile.TemporaryDirectory(prefix="tokenmill-hf-") as folder:
                path = Path(folder, TOKENIZER)
                path.write_text(self._json, encoding="utf-8")
                return self._call(lambda: Tokenizer.from_file(str(path)))
        made = self._call(lambda: Tokenizer.from_str(self._json))
        made.no_truncation()
        made.no_padding()
        made.encode_special_tokens = as_text
        return made

    def _get(self, *, as_text: bool) -> Any:
        if as_text not in self._made:
            self._made[as_text] = self._load(as_text=as_text)
        return self._made[as_text]

    def _call(self, call: Callable[[], Any]) -> Any:
        """Run a call of the library; its panics are `BaseException`s that an ordinary `except` would miss."""
        try:
            return call()
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:
            hint = _HINT if self._modern else ""
            raise TokenizerError(
                f"{self._source}: Hugging Face tokenizers rejects it: {error}{hint}"
            ) from error

    def encode_lists(self, texts: list[str], *, as_text: bool, template: bool) -> list[list[int]]:
        """Return the ids of each text."""
        if self._modern:
            options = {"encode_special_tokens": as_text, "padding": None, "truncation": None}
            encode = self._made[True].encode_batch
        else:
            options = {}
            encode = self._get(as_text=as_text).encode_batch_fast
        found = self._call(lambda: encode(texts, add_special_tokens=template, **options))
        return [encoding.ids for encoding in found]

    def offsets(self, text: str, *, as_text: bool, template: bool) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of one text and the characters that each covers."""
        if self._modern:
            raise TokenizerError(
                f"{self._source}: runs on Hugging Face tokenizers 1.x, which has no offsets; "
                "use encode instead, or pip install 'tokenizers<1'"
            )
        encode = self._get(as_text=as_text).encode
        found = self._call(lambda: encode(text, add_special_tokens=template))
        return list(found.ids), [tuple(span) for span in found.offsets]

    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        """Return the text of ids."""
        decode = self._made[True].decode
        return str(self._call(lambda: decode(ids, skip_special_tokens=skip_special)))

    @cached_property
    def ids(self) -> dict[str, int]:
        """Every token and its id, from the file with version 1, which has no call for it."""
        if not self._modern:
            return dict(self._made[True].get_vocab(with_added_tokens=True))
        data = json.loads(self._json)
        vocab = data.get("model", {}).get("vocab") or {}
        # A Unigram model lists tokens with their scores, in the order of their ids.
        ids = dict(vocab) if isinstance(vocab, dict) else {row[0]: i for i, row in enumerate(vocab)}
        return ids | {token["content"]: token["id"] for token in data.get("added_tokens") or ()}

    @cached_property
    def tokens(self) -> dict[int, str]:
        """The string of every id."""
        return {token_id: token for token, token_id in self.ids.items()}


class HuggingFaceEngine(Engine):
    """A tokenizer of `tokenizers` as an `Engine`."""

    def __init__(
        self, text: str, family: str, added: tuple[AddedToken, ...], source: str, id_limit: int | None = None
    ) -> None:
        """Load the tokenizer from the text of a tokenizer.json."""
        self._json = text
        self._added, self._source = added, source
        self._specials = [token.content for token in added if token.special]
        self.family = family
        self._hf = HfTokenizer(text, source)
        self.id_limit = 1 + max(self._hf.tokens, default=0) if id_limit is None else id_limit

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._json, self.family, self._added, self._source, self.id_limit)

    def encode_lists(self, docs: Docs, special: Special, *, template: bool, threads: int) -> list[list[int]]:
        del threads  # HF has its own pool
        texts = check_texts(docs, special, self._specials)
        out: list[list[int]] = []
        for start in range(0, len(texts), _PART):
            part = texts[start : start + _PART]
            out += self._hf.encode_lists(part, as_text=special == "text", template=template)
        return out

    def offsets(self, text: str, special: Special, *, template: bool) -> Spans:
        (text,) = check_texts([text], special, self._specials)
        return self._hf.offsets(text, as_text=special == "text", template=template)

    def decode(self, ids: Sequence[int] | NDArray[Any], *, skip_special: bool) -> bytes:
        listed = [int(token_id) for token_id in ids]
        unknown = next((token_id for token_id in listed if not 0 <= token_id < self.id_limit), None)
        if unknown is not None:
            raise InputError(f"id {unknown} is not in the vocabulary of {self._source}")
        return self._hf.decode(listed, skip_special=skip_special).encode()

    def token_bytes(self, token_id: int) -> bytes | None:
        token = self._hf.tokens.get(token_id)
        return None if token is None else token.encode()

    def id_of(self, token: bytes) -> int | None:
        return self._hf.ids.get(token.decode(errors="replace"))


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
