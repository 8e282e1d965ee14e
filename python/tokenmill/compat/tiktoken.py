"""tiktoken's `Encoding` and `get_encoding` on this engine.

`import tokenmill.compat.tiktoken as tiktoken` replaces `import tiktoken`.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from tokenmill.tokenizer.files.tiktoken import from_encoding
from tokenmill.tokenizer.interop.tiktoken import TiktokenEncoding
from tokenmill.tokenizer.tokenizer import Tokenizer


class Encoding(TiktokenEncoding):
    """An encoding built from its parts, as `tiktoken.Encoding` is."""

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: dict[bytes, int],
        special_tokens: dict[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        size = len(mergeable_ranks) + len(special_tokens)
        if explicit_n_vocab is not None and explicit_n_vocab != size:
            raise ValueError(f"explicit_n_vocab is {explicit_n_vocab}, but there are {size} tokens")
        self._parts: dict[str, Any] = {
            "pat_str": pat_str,
            "mergeable_ranks": mergeable_ranks,
            "special_tokens": special_tokens,
        }
        given = {f"_{key}": value for key, value in self._parts.items()}
        super().__init__(Tokenizer(from_encoding(SimpleNamespace(name=name, **given))))
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Encoding, self.name, **self._parts), ()


def get_encoding(encoding_name: str) -> TiktokenEncoding:
    """Return a published encoding by name, such as `cl100k_base`."""
    encoding = Tokenizer.load(encoding_name).as_tiktoken()
    encoding.name = encoding_name
    return encoding
