"""The columns of rows: one value for each token, computed when rows are written or read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tokenmill import _core
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

LOSS_MASK: Final = "loss_mask"
# The label that loss functions ignore.
IGNORED = -100


@dataclass(frozen=True)
class Cover:
    """The ids of some rows, flat, and the spans of documents in them, in order; the rest is padding."""

    ids: NDArray[Any]
    documents: NDArray[np.int64]
    positions: NDArray[np.int64]
    lengths: NDArray[np.int64]
    # As long as the ids; None if every token is trained.
    loss_mask: NDArray[np.bool_] | None = None

    @cached_property
    def covered(self) -> NDArray[np.bool_]:
        """True on tokens, False on padding."""
        return self.spread(np.ones_like(self.positions), 0, "int8").view(np.bool_)

    @cached_property
    def trained(self) -> NDArray[np.bool_]:
        """True on tokens that are trained."""
        return self.covered if self.loss_mask is None else self.covered & self.loss_mask

    def spread(self, firsts: NDArray[np.int64], elsewhere: int, dtype: str, step: int = 0) -> NDArray[Any]:
        """Fill each span with its first value, `step` more on each token that follows."""
        out = np.full(len(self.ids), elsewhere, dtype=dtype)
        runs = (np.ascontiguousarray(each, np.int64) for each in (firsts, self.positions, self.lengths))
        first, position, length = runs
        _core.fill_runs(first, step, position, length, out)
        return out


@dataclass(frozen=True)
class Column:
    """A column: its type in files (`stored`), its type in batches (`read`) and how it is computed."""

    name: str
    stored: str
    read: str
    make: Callable[[Cover, str], NDArray[Any]]
    # True if it tells which tokens count: 0 in a mask or a negative label does not.
    masks: bool = False
    # True if it depends on the loss mask.
    trained: bool = False


def _make_labels(cover: Cover, dtype: str) -> NDArray[Any]:
    labels = cover.ids.astype(dtype)
    np.putmask(labels, ~cover.trained, IGNORED)
    return labels


_COLUMNS = (
    # 1 on a token, 0 on padding.
    Column("attention_mask", "int8", "int8", lambda cover, kind: cover.covered.astype(kind), masks=True),
    # The document's number, -1 on padding. Files count from the shard's first document, because shards are
    # written independently; readers add the documents of all earlier shards.
    Column("document_ids", "int32", "int64", lambda cover, kind: cover.spread(cover.documents, -1, kind)),
    # The token id; -100 on padding and on tokens that are not trained.
    Column("labels", "int32", "int64", _make_labels, masks=True, trained=True),
    # 1 on a token that is trained. The one column that does not follow from the spans.
    Column(
        LOSS_MASK, "int8", "int8", lambda cover, kind: cover.trained.astype(kind), masks=True, trained=True
    ),
    # 0, 1, 2, … from the start of each document's span in the row; 0 on padding.
    Column(
        "position_ids",
        "int32",
        "int64",
        lambda cover, kind: cover.spread(np.zeros_like(cover.lengths), 0, kind, step=1),
    ),
)
COLUMNS = {column.name: column for column in _COLUMNS}


def find_column(name: str) -> Column:
    """Return the column of that name, or raise `DatasetError`."""
    if name not in COLUMNS:
        raise DatasetError(f"{name!r} is not a column; the columns are {', '.join(COLUMNS)}")
    return COLUMNS[name]


def store_columns(names: Sequence[str], cover: Cover) -> dict[str, NDArray[Any]]:
    """Compute columns, flat, in the types of files."""
    columns = (find_column(name) for name in names)
    return {column.name: column.make(cover, column.stored) for column in columns}
