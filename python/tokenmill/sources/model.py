"""What the sources give: inputs, ranges of them, and blocks of documents with what was refused."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tokenmill.base.texts import Texts
from tokenmill.sources.stores import is_remote

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from tokenmill.sources.where import Column

# The format of data that is attached and not in a file.
MEMORY = "memory"
RangeKind = Literal["file", "bytes", "groups", "batches", "rows"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input as it was found: where, what it is, and how to notice that it changed.

    `identity` is size and mtime locally, size and etag (or what the store has) remotely.
    """

    url: str
    size: int
    identity: str
    format: str
    compression: str | None = None
    split: str | None = None
    txt_mode: Literal["file", "line", "separator"] | None = None
    separator: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        """Whether `url` is a path of this machine."""
        return not is_remote(self.url) and self.format != MEMORY


@dataclass(frozen=True, slots=True)
class Range:
    """A part of an input: bytes, row groups or record batches `[start, stop)`, or all of it.

    The cut depends on the input and on `unit_bytes` alone. `size` is about how many bytes it has.
    """

    kind: RangeKind
    start: int
    stop: int
    size: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.start}-{self.stop}"


@dataclass(frozen=True, slots=True)
class Reject:
    """A record (or the rest of a file) that was left out: why, `file:line:byte`, and some of it."""

    reason: str
    place: str
    sample: str


@dataclass(frozen=True, slots=True)
class Known:
    """What an earlier job made of a block's documents: `ids[offsets[i]:offsets[i + 1]]`, in their frame.

    Those that are `stale` must be encoded anew; the others are as they would come out. `frame` are the BOS
    and EOS around them.
    """

    ids: NDArray[Any]
    offsets: NDArray[np.int64]
    stale: NDArray[np.bool_]
    frame: tuple[int | None, int | None]

    def slice(self, start: int, count: int) -> Known:
        """Those of some neighbours."""
        offsets = self.offsets[start : start + count + 1]
        stale = self.stale[start : start + count]
        return Known(self.ids[offsets[0] : offsets[-1]], offsets - offsets[0], stale, self.frame)


@dataclass(frozen=True, slots=True)
class Block:
    """Some documents of a range, in file order.

    `rows` are record numbers within the range, from 0, counted over good, blank and refused records
    alike; `rows_read` says how many records this block passed, so that the sum over a range and the
    ranges before it gives a record's number in its file. `refused` and `replaced` count by reason;
    `rejects` has the first of each block only.
    """

    texts: Texts = field(default_factory=Texts)
    rows: memoryview | NDArray[np.int64] = field(default_factory=lambda: memoryview(array("q")))
    ids: pa.LargeStringArray | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    bytes_read: int = 0
    rows_read: int = 0
    rejects: tuple[Reject, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    replaced: Mapping[str, int] = field(default_factory=dict)
    # The text of this block goes on in the next one.
    goes_on: bool = False
    known: Known | None = None

    def __len__(self) -> int:
        return len(self.rows)
