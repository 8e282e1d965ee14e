"""Hugging Face `tokenizers` as one interface, whichever of its two APIs is installed: 0.20 and later, or 1.x.

Version 1 has a different API: texts go through `encode_batch` alone, every call says how special tokens are
read, ids come as arrays, and there is no way to ask for offsets or for the vocabulary.
"""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import TokenizerError, explain_missing
from tokenmill.tokenizer.files.names import TOKENIZER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray


class HfTokenizer(ABC):
    """What `fast` and the comparison ask of Hugging Face; `as_text` reads special tokens as text."""

    def __init__(self, text: str, source: str) -> None:
        self._json, self._source = text, source

    @property
    @abstractmethod
    def id_limit(self) -> int:
        """The largest id plus one."""

    @abstractmethod
    def encode_lists(self, texts: list[str], *, as_text: bool, template: bool) -> list[list[int]]:
        """The ids of each text as a list."""

    def encode_arrays(self, texts: list[str], *, as_text: bool, template: bool) -> list[NDArray[np.uint32]]:
        """The ids of each text as an array."""
        import numpy as np

        rows = self.encode_lists(texts, as_text=as_text, template=template)
        return [np.asarray(ids, np.uint32) for ids in rows]

    @abstractmethod
    def offsets(self, text: str, *, as_text: bool, template: bool) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of one text and the characters that each covers."""

    @abstractmethod
    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        """The text of ids."""

    @abstractmethod
    def find_token(self, token_id: int) -> str | None:
        """The string of one id."""

    @abstractmethod
    def id_of(self, token: str) -> int | None:
        """The id of one string."""


def open_hf(text: str, source: str) -> HfTokenizer:
    """The tokenizer of a tokenizer.json's text, whose truncation and padding are ignored."""
    with explain_missing("tokenizers", "hf", f"{source}: this tokenizer"):
        from tokenizers import __version__
    major = int(__version__.partition(".")[0])
    return _ModernHf(text, source) if major >= 1 else _ClassicHf(text, source)


class _ClassicHf(HfTokenizer):
    """`tokenizers` 0.20 to 0.x: one object for each reading of special tokens."""

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text, source)
        # The second is made when somebody asks for it, since a large vocabulary takes a tenth of a second.
        self._readings = {True: self._build(as_text=True)}

    def _build(self, *, as_text: bool) -> Any:
        from tokenizers import Tokenizer

        made = call_guarded(lambda: Tokenizer.from_str(self._json), self._source)
        made.no_truncation()
        made.no_padding()
        made.encode_special_tokens = as_text
        return made

    def _get_reading(self, *, as_text: bool) -> Any:
        if as_text not in self._readings:
            self._readings[as_text] = self._build(as_text=as_text)
        return self._readings[as_text]

    @property
    def id_limit(self) -> int:
        return 1 + max(self._readings[True].get_vocab(with_added_tokens=True).values(), default=0)

    def encode_lists(self, texts: list[str], *, as_text: bool, template: bool) -> list[list[int]]:
        # Without the offsets that HF would otherwise compute.
        encode = self._get_reading(as_text=as_text).encode_batch_fast
        found = call_guarded(lambda: encode(texts, add_special_tokens=template), self._source)
        return [encoding.ids for encoding in found]

    def offsets(self, text: str, *, as_text: bool, template: bool) -> tuple[list[int], list[tuple[int, int]]]:
        encode = self._get_reading(as_text=as_text).encode
        found = call_guarded(lambda: encode(text, add_special_tokens=template), self._source)
        return list(found.ids), [tuple(place) for place in found.offsets]

    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        decode = self._readings[True].decode
        text: str = call_guarded(lambda: decode(ids, skip_special_tokens=skip_special), self._source)
        return text

    def find_token(self, token_id: int) -> str | None:
        found: str | None = self._readings[True].id_to_token(token_id)
        return found

    def id_of(self, token: str) -> int | None:
        found: int | None = self._readings[True].token_to_id(token)
        return found


# Version 1 leaves out what few tokenizers need, such as patterns that only a backtracking engine reads.
_HINT = "; version 0.x may support it: pip install 'tokenizers<1'"


class _ModernHf(HfTokenizer):
    """`tokenizers` 1.x: one object, and its vocabulary as its file has it."""

    def __init__(self, text: str, source: str) -> None:
        from tokenizers import Tokenizer

        super().__init__(text, source)
        # It can only be loaded from a file.
        with tempfile.TemporaryDirectory(prefix="tokenmill-hf-") as folder:
            path = Path(folder, TOKENIZER)
            path.write_text(text, encoding="utf-8")
            self._made = call_guarded(lambda: Tokenizer.from_file(str(path)), source, _HINT)

    @property
    def id_limit(self) -> int:
        return 1 + max(self._ids.values(), default=0)

    @cached_property
    def _ids(self) -> dict[str, int]:
        data = json.loads(self._json)
        vocab = data.get("model", {}).get("vocab") or {}
        # A Unigram model lists its tokens with their scores; their places are their ids.
        ids = dict(vocab) if isinstance(vocab, dict) else {row[0]: place for place, row in enumerate(vocab)}
        return ids | {token["content"]: token["id"] for token in data.get("added_tokens") or ()}

    @cached_property
    def _tokens(self) -> dict[int, str]:
        return {token_id: token for token, token_id in self._ids.items()}

    def _encode(self, texts: list[str], *, as_text: bool, template: bool) -> Sequence[Any]:
        options: dict[str, Any] = {"add_special_tokens": template, "encode_special_tokens": as_text}
        call = self._made.encode_batch
        found: Sequence[Any] = call_guarded(
            lambda: call(texts, **options, padding=None, truncation=None), self._source, _HINT
        )
        return found

    def encode_arrays(self, texts: list[str], *, as_text: bool, template: bool) -> list[NDArray[np.uint32]]:
        return [encoding.ids_array for encoding in self._encode(texts, as_text=as_text, template=template)]

    def encode_lists(self, texts: list[str], *, as_text: bool, template: bool) -> list[list[int]]:
        return [encoding.ids for encoding in self._encode(texts, as_text=as_text, template=template)]

    def offsets(
        self,
        text: str,  # noqa: ARG002 - refused whatever it is
        *,
        as_text: bool,  # noqa: ARG002
        template: bool,  # noqa: ARG002
    ) -> tuple[list[int], list[tuple[int, int]]]:
        raise TokenizerError(
            f"{self._source}: runs on Hugging Face tokenizers 1.x, which gives no offsets; "
            "ask only for ids, or pip install 'tokenizers<1'"
        )

    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        decode = self._made.decode
        text: str = call_guarded(lambda: decode(ids, skip_special_tokens=skip_special), self._source)
        return text

    def find_token(self, token_id: int) -> str | None:
        return self._tokens.get(token_id)

    def id_of(self, token: str) -> int | None:
        return self._ids.get(token)


def call_guarded(call: Callable[[], Any], where: str, hint: str = "") -> Any:
    """Runs a call of HF; its panics are `BaseException`s that an ordinary `except` would miss."""
    try:
        return call()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        raise TokenizerError(f"{where}: Hugging Face tokenizers refuses it: {error}{hint}") from error
