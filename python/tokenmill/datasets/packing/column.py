"""A column of rows as one object: its types, and how it is made, both when rows are written and when read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core
from tokenmill.base.folders import list_modules
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Cover:
    """The ids of some rows, flat, and the stretches of documents in them, in order; the rest is padding."""

    ids: NDArray[Any]
    documents: NDArray[np.int64]
    positions: NDArray[np.int64]
    lengths: NDArray[np.int64]
    # Which tokens are learned, as long as the ids; None where all are.
    learned: NDArray[np.bool_] | None = None

    @cached_property
    def covered(self) -> NDArray[np.bool_]:
        """Where there is a token."""
        return self.spread(np.ones_like(self.positions), 0, "int8").view(np.bool_)

    @cached_property
    def taught(self) -> NDArray[np.bool_]:
        """Where there is a token that is learned."""
        return self.covered if self.learned is None else self.covered & self.learned

    def spread(self, firsts: NDArray[np.int64], elsewhere: int, dtype: str, step: int = 0) -> NDArray[Any]:
        """For each stretch a number on its first token and `step` more on each that follows."""
        out = np.full(len(self.ids), elsewhere, dtype=dtype)
        runs = (np.ascontiguousarray(each, np.int64) for each in (firsts, self.positions, self.lengths))
        first, position, length = runs
        _core.fill_runs(first, step, position, length, out)
        return out


@dataclass(frozen=True)
class Column:
    """One value for each token of a row, as `stored` in files and as `read` into batches."""

    name: str
    stored: str
    read: str
    make: Callable[[Cover, str], NDArray[Any]]
    # Whether it says which tokens count: 0 in a mask or a negative label does not.
    masks: bool = False
    # Whether it depends on what is learned.
    taught: bool = False


def list_column_names() -> tuple[str, ...]:
    """Every column, by name."""
    return list_modules("datasets/columns")


def find_column(name: str) -> Column:
    """The column of that name."""
    if name not in list_column_names():
        raise DatasetError(f"{name!r} is not a column; the columns are {', '.join(list_column_names())}")
    found: Column = import_module(f"tokenmill.datasets.columns.{name}").COLUMN
    return found


def store_columns(names: Sequence[str], cover: Cover) -> dict[str, NDArray[Any]]:
    """The columns asked for, flat, in the types of files."""
    columns = (find_column(name) for name in names)
    return {column.name: column.make(cover, column.stored) for column in columns}
