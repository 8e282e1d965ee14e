"""Parts of an input that can be read on their own; the cut never depends on who reads them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from tokenmill.sources.faults import FileFaultError
from tokenmill.sources.formats import find_input_format
from tokenmill.sources.model import Range
from tokenmill.sources.windows import overlaps_itself

if TYPE_CHECKING:
    from tokenmill.sources.model import InputFile


def cut_ranges(file: InputFile, unit_bytes: int) -> list[Range]:
    """Cut an input into ranges of about `unit_bytes`, in file order; they cover it exactly.

    A plain file of lines is cut at any byte (a record belongs to the range it starts in), Parquet
    between row groups, Arrow files between record batches. What cannot be entered in the middle is
    one range.
    """
    try:
        found = find_input_format(file).cut_ranges(file, unit_bytes)
    except FileFaultError:
        found = None  # reading it meets the same fault, and there the policy decides
    return [Range("file", 0, file.size, file.size)] if found is None else found


def cut_lines(file: InputFile, unit_bytes: int) -> list[Range] | None:
    """A plain file at any byte: a record belongs to the range it starts in."""
    whole = file.compression is not None or file.txt_mode == "file" or file.size <= unit_bytes
    if whole or overlaps_itself((file.separator or "").encode()):
        return None
    return cut_equally("bytes", file.size, file.size, unit_bytes)


def cut_equally(kind: Literal["bytes", "rows"], length: int, size: int, unit_bytes: int) -> list[Range]:
    """Equal parts rather than a small rest: the last unit is not done long before the others."""
    count = max(min(-(-size // unit_bytes), length), 1)
    edges = [length * at // count for at in range(count + 1)]
    return [Range(kind, start, stop, size // count) for start, stop in pairwise(edges)]
