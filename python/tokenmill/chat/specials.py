"""The strings that only a template may write: a tokenizer's special tokens, and how they stand in texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenmill.tokenizer.recipe import AddedToken, Recipe

_LOOKS = re.compile(r"<[|｜].+[|｜]>")  # noqa: RUF001 - the wide bars are DeepSeek's own


def find_control_tokens(recipe: Recipe) -> tuple[AddedToken, ...]:
    """Special tokens, those with a role in the config, and those spelled `<|…|>` whatever the file says.

    A token such as `<think>` that is not special is not one of them: messages may contain it.
    """
    roles = [recipe.config.get(f"{role}_token") for role in ("bos", "eos", "pad")]
    names = {value.get("content") if isinstance(value, dict) else value for value in roles}
    return tuple(
        token
        for token in recipe.added
        if token.special or token.content in names or _LOOKS.fullmatch(token.content)
    )


@dataclass(frozen=True)
class Specials:
    """The strings of a tokenizer's special tokens."""

    strings: tuple[str, ...]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the longest of them; nothing if there are none."""
        longest = sorted(self.strings, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest)) or "(?!)")

    def count(self, text: str) -> int:
        """How many stand in a text."""
        return sum(1 for _ in self.pattern.finditer(text))

    def can_cross(self, before: str, after: str) -> bool:
        """Whether one could begin at the end of `before`, or end at the start of `after`."""
        return any(
            before.endswith(string[:size]) or after.startswith(string[-size:])
            for string in self.strings
            for size in range(1, len(string))
        )
