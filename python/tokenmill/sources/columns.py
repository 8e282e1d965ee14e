"""Columns beside the text, whatever they were read from: the same questions to JSON and to Arrow.

A JSON column has no type of its own, only its values have. So a predicate asks for the numbers, the
strings or the booleans in it, and gets null where the value is something else; the answer never
depends on which records happen to share a block. (Arrow's compute functions are imported where they are used:
most jobs ask no column anything, and the import takes as long as a small job.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FALSE, _TRUE, _NUMBER, _STRING = 1, 2, 3, 4
_NUMBER_PATTERN = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"


class SourceColumn(Protocol):
    """Values of one field, one for each document of a block."""

    def numbers(self) -> pa.Array:
        """The numbers, null elsewhere."""

    def strings(self) -> pa.Array:
        """The strings as `large_string`, null elsewhere."""

    def booleans(self) -> pa.Array:
        """The booleans, null elsewhere."""

    def is_null(self) -> pa.BooleanArray:
        """Where the field is missing or null."""

    def labels(self) -> pa.LargeStringArray:
        """Strings and numbers as they would be printed: what an id is recorded as."""


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """The kind of each value, and the characters of strings and numbers."""

    kinds: NDArray[np.uint8]
    values: pa.LargeStringArray

    def _keep_kinds(self, *kinds: int) -> pa.LargeStringArray:
        import pyarrow.compute as pc

        wanted = pa.array(np.isin(self.kinds, kinds))
        return pc.if_else(wanted, self.values, pa.scalar(None, pa.large_string()))

    def numbers(self) -> pa.Array:
        """The numbers as float64; integers beyond 2**53 lose their last digits."""
        return self._keep_kinds(_NUMBER).cast(pa.float64())

    def strings(self) -> pa.Array:
        """The strings, null elsewhere."""
        return self._keep_kinds(_STRING)

    def booleans(self) -> pa.Array:
        """The booleans, null elsewhere."""
        return pa.array(self.kinds == _TRUE, mask=~np.isin(self.kinds, (_FALSE, _TRUE)))

    def is_null(self) -> pa.BooleanArray:
        """Where the field is missing or null."""
        return pa.array(self.kinds == 0)

    def labels(self) -> pa.LargeStringArray:
        """Strings and numbers as they stand in the file."""
        return self._keep_kinds(_NUMBER, _STRING)


@dataclass(frozen=True, slots=True)
class CsvColumn:
    """A delimited file has only characters: a number is what reads as one."""

    kinds: NDArray[np.uint8]
    values: pa.LargeStringArray

    def _keep_where(self, wanted: pa.BooleanArray) -> pa.LargeStringArray:
        import pyarrow.compute as pc

        return pc.if_else(
            pc.and_(wanted, pc.invert(self.is_null())), self.values, pa.scalar(None, pa.large_string())
        )

    def numbers(self) -> pa.Array:
        """The fields that read as numbers, as float64."""
        import pyarrow.compute as pc

        return self._keep_where(pc.match_substring_regex(self.values, _NUMBER_PATTERN)).cast(pa.float64())

    def strings(self) -> pa.Array:
        """Every field that is not empty (an empty one counts when it is quoted)."""
        return self._keep_where(pa.array(np.ones(len(self.kinds), bool)))

    def booleans(self) -> pa.Array:
        """The fields that read true or false, in any case."""
        import pyarrow.compute as pc

        lower = pc.utf8_lower(self.values)
        known = pc.is_in(lower, pa.array(["true", "false"], pa.large_string()))
        return pc.if_else(known, pc.equal(lower, "true"), pa.scalar(None, pa.bool_()))

    def is_null(self) -> pa.BooleanArray:
        """Where the field is empty without quotes."""
        return pa.array(self.kinds == 0)

    def labels(self) -> pa.LargeStringArray:
        """The fields as they stand."""
        return self.strings()


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """A column that has a type."""

    array: pa.Array

    def _cast_if(self, *, wanted: bool, kind: pa.DataType) -> pa.Array:
        return self.array.cast(kind) if wanted else pa.nulls(len(self.array), kind)

    def numbers(self) -> pa.Array:
        """The column itself if it is numeric."""
        kind = self.array.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return self.array
        return self._cast_if(wanted=pa.types.is_decimal(kind), kind=pa.float64())

    def strings(self) -> pa.Array:
        """The column itself if it is of strings."""
        return self._cast_if(wanted=is_text(self.array.type), kind=pa.large_string())

    def booleans(self) -> pa.Array:
        """The column itself if it is boolean."""
        return self._cast_if(wanted=pa.types.is_boolean(self.array.type), kind=pa.bool_())

    def is_null(self) -> pa.BooleanArray:
        """Where there is no value."""
        return self.array.is_null()

    def labels(self) -> pa.LargeStringArray:
        """The values as strings."""
        kind = self.array.type
        if is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return self.array.cast(pa.large_string())
        return pa.nulls(len(self.array), pa.large_string())


COLUMNS: dict[str, type[JsonColumn | CsvColumn]] = {"json": JsonColumn, "csv": CsvColumn}


def is_text(kind: pa.DataType) -> bool:
    """Whether a type holds characters: `large_string` -> True, `dictionary<string>` -> True."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
