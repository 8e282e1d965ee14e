"""rustbpe's `Tokenizer` on this engine: the same vocabulary, bytes by value first, then one id per merge.

`import tokenmill.compat.rustbpe as rustbpe` replaces `import rustbpe`.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenmill.compat.minbpe import GPT4_SPLIT_PATTERN, RegexTokenizer
from tokenmill.training.merging import BYTE_VALUES


class Tokenizer(RegexTokenizer):
    """A byte-level BPE tokenizer with the methods of `rustbpe.Tokenizer` that nanochat uses."""

    # Two splits of the same bytes are two tokens, and ties go to the lowest pair of ids.
    _tie_break = BYTE_VALUES
    encode = RegexTokenizer.encode_ordinary  # type: ignore[assignment]

    def train_from_iterator(
        self, iterator: Iterable[str], vocab_size: int, buffer_size: int = 8192, pattern: str | None = None
    ) -> None:
        """Train `vocab_size - 256` merges; `buffer_size` has no effect."""
        del buffer_size
        self.pattern = pattern or GPT4_SPLIT_PATTERN
        self.train(iterator, vocab_size)

    def get_pattern(self) -> str:
        """Return the split pattern."""
        return self.pattern

    def get_mergeable_ranks(self) -> list[tuple[bytes, int]]:
        """Return the bytes and the id of every token."""
        return [(token, token_id) for token_id, token in self.vocab.items()]
