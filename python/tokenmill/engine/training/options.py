"""What decides a trained vocabulary, checked before anything is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from tokenmill import _core
from tokenmill.base.errors import ConfigError

TieBreak = Literal["huggingface", "lexicographic"]

# Ids are below 2^24 everywhere in the project.
LARGEST_VOCABULARY = 1 << 24
NO_LIMIT = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The settings that the merges depend on; everything else changes only speed or words.

    `min_frequency` stops when the best pair occurs less often, as Hugging Face means it.
    `min_piece_frequency` leaves rare pieces out before merging, which changes the result. `unify` makes the
    same bytes one token whatever the split, as every trainer but minbpe does.
    """

    vocab_size: int
    pattern: str = "gpt2"
    special_tokens: tuple[str, ...] = ()
    min_frequency: int = 0
    min_piece_frequency: int = 1
    max_token_length: int | None = None
    tie_break: TieBreak = "huggingface"
    held_out: float = 0.0
    unify: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, with what to do instead."""
        _check_special(self.special_tokens)
        _check_vocab_size(self.vocab_size, self.special_tokens)
        for name, least in (("min_frequency", 0), ("min_piece_frequency", 1), ("max_token_length", 1)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise ConfigError(f"{name} is {value!r}; expected an integer of at least {least}")
        if self.tie_break not in ("huggingface", "lexicographic"):
            raise ConfigError(
                f"tie_break is {self.tie_break!r}; expected 'huggingface' (lowest pair of ids) or "
                "'lexicographic' (greatest pair of byte strings)"
            )
        if not 0 <= self.held_out < 1:
            raise ConfigError(f"held_out is {self.held_out!r}; expected a fraction from 0 to below 1")

    @property
    def model_tokens(self) -> int:
        """How many tokens the merges may make, the 256 bytes among them."""
        return self.vocab_size - len(self.special_tokens)

    @property
    def longest(self) -> int:
        """`max_token_length`, or a limit that nothing reaches."""
        return NO_LIMIT if self.max_token_length is None else min(self.max_token_length, NO_LIMIT)

    def identity(self) -> dict[str, Any]:
        """Everything as plain JSON, with the pattern in its one canonical spelling."""
        return {
            **asdict(self),
            "special_tokens": list(self.special_tokens),
            "pattern": _core.pattern_steps(self.pattern),
        }


def _check_special(tokens: tuple[str, ...]) -> None:
    seen = set()
    for token in tokens:
        if not isinstance(token, str) or not token:
            raise ConfigError(f"special token {token!r} is empty or no string; give each one some text")
        if len(token.encode("utf-8", "replace")) == 1:
            raise ConfigError(f"special token {token!r} is a single byte, which the vocabulary has already")
        if token in seen:
            raise ConfigError(f"special token {token!r} is listed twice; list each one once")
        seen.add(token)


def _check_vocab_size(size: int, special: tuple[str, ...]) -> None:
    least = 256 + len(special)
    if isinstance(size, bool) or not isinstance(size, int) or not least <= size <= LARGEST_VOCABULARY:
        raise ConfigError(
            f"vocab_size is {size!r}; expected an integer from {least} (256 bytes and {len(special)} special "
            f"tokens) to {LARGEST_VOCABULARY}"
        )
