"""What stands in texts: how often the strings of special tokens, and which texts are blank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tokenmill import _core

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class StringCounter:
    """`StringCounter(("<s>",))` counts `<s>`; it pickles as its strings and is built where it is used."""

    strings: tuple[str, ...]

    @cached_property
    def _counter(self) -> _core.StringCounter:
        return _core.StringCounter(list(self.strings))

    def __reduce__(self) -> tuple[type[StringCounter], tuple[tuple[str, ...]]]:
        return StringCounter, (self.strings,)

    def count(self, offsets: memoryview, data: memoryview) -> int:
        """The occurrences in texts `data[offsets[d]:offsets[d + 1]]`."""
        if not self.strings or len(offsets) < 2:
            return 0
        return self._counter.count(data, offsets)


def find_blank(offsets: memoryview, data: memoryview) -> NDArray[np.bool_]:
    """Where a text `data[offsets[d]:offsets[d + 1]]` is empty or all white space."""
    return _core.blank_texts(data, offsets)


def has_blank(offsets: memoryview, data: memoryview) -> bool:
    """Whether any text is."""
    return _core.has_blank(data, offsets)
