"""tiktoken's `Encoding` and `get_encoding` on this engine.

`import tokenmill.compat.tiktoken as tiktoken` replaces `import tiktoken`.
"""

from __future__ import annotations

from types import SimpleNamespace

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
        if explicit_n_vocab not in {None, size}:
            raise ValueError(f"explicit_n_vocab is {explicit_n_vocab}, but there are {size} tokens")
        parts = {"_pat_str": pat_str, "_mergeable_ranks": mergeable_ranks, "_special_tokens": special_tokens}
        super().__init__(Tokenizer(from_encoding(SimpleNamespace(name=name, **parts))))


def get_encoding(encoding_name: str) -> TiktokenEncoding:
    """Return a published encoding by name, such as `cl100k_base`."""
    return Tokenizer.load(encoding_name).as_tiktoken()
