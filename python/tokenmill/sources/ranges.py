"""Parts of an input that can be read on their own; the cut never depends on who reads them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from tokenmill.sources.faults import FileFaultError
from tokenmill.sources.model import MEMORY, Range
from tokenmill.sources.windows import overlaps_itself

if TYPE_CHECKING:
    from tokenmill.sources.model import InputFile


def ranges(file: InputFile, unit_bytes: int) -> list[Range]:
    """Cut an input into ranges of about `unit_bytes`, in file order; they cover it exactly.

    A plain file of lines is cut at any byte (a record belongs to the range it starts in), Parquet
    between row groups, Arrow files between record batches. What cannot be entered in the middle is
    one range.
    """
    try:
        if file.format in {"parquet", "arrow"} and (found := _columnar(file, unit_bytes)) is not None:
            return found
    except FileFaultError:
        # Reading it meets the same fault, and there the policy decides.
        return [Range("file", 0, file.size, file.size)]
    if file.format == MEMORY and (rows := row_count(file)) is not None:
        return _equal("rows", rows, file.size, unit_bytes)
    if _cuttable(file) and file.size > unit_bytes:
        return _equal("bytes", file.size, file.size, unit_bytes)
    return [Range("file", 0, file.size, file.size)]


def _columnar(file: InputFile, unit_bytes: int) -> list[Range] | None:
    from tokenmill.sources import columnar  # here, since it brings Arrow along

    if file.format == "parquet":
        return _grouped("groups", columnar.group_sizes(file), unit_bytes)
    count = columnar.batch_count(file)
    if count is None:
        return None
    return _grouped("batches", [file.size // max(count, 1)] * count, unit_bytes)


def row_count(file: InputFile) -> int | None:
    """How many rows an input in memory has; None if it can only be walked."""
    from tokenmill.sources import memory

    return memory.row_count(file)


def _equal(kind: Literal["bytes", "rows"], length: int, size: int, unit_bytes: int) -> list[Range]:
    """Equal parts rather than a small rest: the last unit is not done long before the others."""
    count = max(min(-(-size // unit_bytes), length), 1)
    edges = [length * at // count for at in range(count + 1)]
    return [Range(kind, start, stop, size // count) for start, stop in pairwise(edges)]


def _cuttable(file: InputFile) -> bool:
    if file.compression is not None:
        return False
    if file.format == "txt" and file.txt_mode == "separator":
        return not overlaps_itself((file.separator or "").encode())
    return file.format == "jsonl" or (file.format == "txt" and file.txt_mode == "line")


def _grouped(kind: Literal["groups", "batches"], sizes: list[int], unit_bytes: int) -> list[Range]:
    """Neighbours together until they reach `unit_bytes`: sizes 6, 6, 6 in units of 10 -> [0, 2), [2, 3)."""
    found: list[Range] = []
    start = total = 0
    for at, size in enumerate(sizes):
        total += size
        if total >= unit_bytes or at + 1 == len(sizes):
            found.append(Range(kind, start, at + 1, total))
            start, total = at + 1, 0
    return found
