"""What a template may cost: steps, which are the same on every machine, and characters."""

from __future__ import annotations

from typing import Any

MOST_STEPS = 2_000_000
MOST_CHARACTERS = 1 << 28
LARGEST_TEMPLATE = 1 << 20
# No template needs a larger number for a width or a count; a string of that length is still harmless.
_LARGEST_NUMBER = 1 << 24


class TemplateLimitError(Exception):
    """A template runs for too long, or writes too much."""


class Budget:
    """Counted down by every loop, call and filter of one rendering."""

    def __init__(self) -> None:
        self.steps = MOST_STEPS

    def step(self) -> None:
        """One more turn of a loop, or one more call."""
        self.steps -= 1
        if self.steps < 0:
            raise TemplateLimitError(f"it takes more than {MOST_STEPS:,} steps for one conversation")

    def check_numbers(self, *values: Any) -> None:
        """Refuse numbers that would make a string of gigabytes."""
        for value in values:
            if isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
                raise TemplateLimitError(f"it calls a function with the number {value}, which is too large")

    def check_text(self, text: Any) -> Any:
        """Refuse a string that has grown too long; any other value passes."""
        if isinstance(text, str) and str.__len__(text) > MOST_CHARACTERS:
            raise TemplateLimitError(f"it makes a text of more than {MOST_CHARACTERS:,} characters")
        return text
