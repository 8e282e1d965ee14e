"""Views: rules that turn documents into rows of one length when a dataset is read.

The formats that store rows are written through the same functions. `concat` puts documents end to end,
`bestfit` keeps documents whole where they fit, and `separate` gives each document rows of its own. Every view
counts the tokens that it drops.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tokenmill import _core
from tokenmill.base.records import Count
from tokenmill.datasets.documents import COLUMNS, Int64s, make_offsets
from tokenmill.errors import ConfigError

# Return how many tokens of each of some parts (document, start, end) are trained.
CountTrained = Callable[[Int64s, Int64s, Int64s], Int64s]

Packing = Literal["concat", "bestfit", "separate"]
Tail = Literal["drop", "pad"]
TooLong = Literal["drop", "truncate", "keep-last"]
# Other names: `window` and `pad` are `separate` with an overlap or padding.
ALIASES: dict[str, Packing] = {"stream": "concat", "window": "separate", "pad": "separate"}
# Best fit lays out this many tokens at a time, and at least so many rows: enough that under 1 % of the rows
# are left half empty, few enough that a shard of any size is laid out in bounded memory. Part of the format.
GROUP_TOKENS = 1 << 22
GROUP_ROWS = 64
# One list per batch instead of a value per token, so it is computed on reading and never stored.
CU_SEQLENS = "cu_seqlens"


@dataclass(frozen=True, slots=True)
class View:
    """The options that turn documents into rows. The manifest contains the default view of a dataset.

    >>> View(context_length=4, packing="separate", overlap=1, tail="pad").describe()
    'separate, rows of 4, overlap 1, tail pad'
    """

    context_length: Count
    packing: Packing = "concat"
    overlap: Count = 0
    """Tokens repeated from the end of the previous row, in `separate` only of the same document."""
    tail: Tail = "drop"
    """A last, shorter row: that of the dataset in `concat`, that of each document in `separate`."""
    max_documents: Count | None = None
    """The most documents that `bestfit` puts in a row."""
    too_long: TooLong | None = None
    """A document longer than a row: dropped, cut at its end or at its start; None to continue it."""
    multiple_of: Count = 1
    """Each document's part of a row is padded to a multiple of this."""
    bos_aligned: bool = False
    """`bestfit` without padding: where no document fits, the shortest is cut to fill the row."""
    per_shard: bool = False
    """No row of `concat` continues from one shard to the next."""
    columns: tuple[str, ...] = ()

    @property
    def by_position(self) -> bool:
        """True if rows are located by arithmetic on token offsets, without an index."""
        plain = self.too_long is None and self.multiple_of == 1 and not self.per_shard
        return self.packing == "concat" and plain

    @property
    def pads(self) -> bool:
        """True if rows may have padding."""
        return self.tail == "pad" or self.multiple_of > 1

    def layout(self) -> dict[str, Any]:
        """Return the options that determine the rows, without columns. Rare options only if set."""
        usual = {field.name: field.default for field in fields(View)}
        always = {"context_length", "packing", "overlap", "tail"}
        values = asdict(replace(self, columns=()))
        return {name: value for name, value in values.items() if name in always or value != usual[name]}

    def to_settings(self) -> dict[str, Any]:
        """Return the settings of `prepare` that record this view."""
        values = asdict(self)
        del values["per_shard"]  # an option of readers only
        return values | {"mode": values.pop("packing"), "max_documents_per_row": values.pop("max_documents")}

    def describe(self) -> str:
        """Return the view in words."""
        words = [f"{name.replace('_', ' ')} {value}" for name, value in self.layout().items()]
        return ", ".join([self.packing, f"rows of {self.context_length}", *words[2:]])


def make_view(default: View | None = None, *, conversations: bool = False, **given: Any) -> View:
    """Return the view of some options. Missing options and None are taken from the default view.

    With another packing or `bos_aligned`, only its length and columns are taken.

    Raises:
        ConfigError: The options contradict each other; the message names them.
    """
    options = {name: value for name, value in given.items() if value is not None}
    if default is not None:
        packing = options.setdefault("packing", default.packing)
        same = ALIASES.get(packing, packing) == default.packing and not options.get("bos_aligned")
        usual = {"context_length": default.context_length, "columns": default.columns}
        options = (asdict(default) if same else usual) | options
    if "context_length" not in options:
        raise ConfigError("the dataset has no default view, so call rows(context_length=...)")
    packing, aligned = options.pop("packing", "concat"), options.get("bos_aligned")
    name = ALIASES.get(packing, packing)
    cuts = packing == "bestfit" or (packing in {"pad", "separate"} and not options.get("overlap"))
    if conversations and cuts and options.get("too_long") is None and not aligned:
        options["too_long"] = "truncate"
    options.setdefault("tail", "drop" if name == "concat" or aligned else "pad")
    if name != "concat":
        options.pop("per_shard", None)  # no row of another packing continues in the next shard
    view = View(packing=name, **options)
    _check(view)
    return view


def _check(view: View) -> None:
    """Raise `ConfigError` if an option is invalid or contradicts another."""
    for name, kind in {"packing": Packing, "tail": Tail, "too_long": TooLong}.items():
        value, known = getattr(view, name), get_args(kind)
        if value not in known and (value is not None or name != "too_long"):
            raise ConfigError(f"{name} is {value!r}; it must be {' or '.join(map(repr, known))}")
    for name in ("context_length", "multiple_of", "max_documents"):
        if (value := getattr(view, name)) is not None and value < 1:
            raise ConfigError(f"{name} is {value}; it must be at least 1")
    if (problem := _find_contradiction(view)) is not None:
        raise ConfigError(problem)


def _find_contradiction(view: View) -> str | None:  # noqa: PLR0911
    length, overlap, multiple = view.context_length, view.overlap, view.multiple_of
    bestfit, aligned, most = view.packing == "bestfit", view.bos_aligned, view.max_documents
    columns = (*COLUMNS, CU_SEQLENS)
    if not 0 <= overlap < length:
        return f"overlap is {overlap}; it must be from 0 to context_length - 1 = {length - 1}"
    if overlap and view.packing != "separate" and not view.by_position:
        return f"overlap={overlap} cannot be combined with bestfit, too_long, multiple_of or per_shard"
    if length % multiple:
        return f"context_length={length} is not a multiple of multiple_of={multiple}"
    if most is not None and (not bestfit or aligned):
        return f"max_documents={most} is for packing 'bestfit' without bos_aligned"
    if aligned and (not bestfit or view.tail == "pad" or view.too_long):
        return "bos_aligned=True is for packing 'bestfit', and fills rows: leave out tail and too_long"
    if bestfit and view.tail == "drop" and not aligned:
        return "tail='drop' is for packing 'concat' and 'separate'; 'bestfit' keeps every document and pads"
    if unknown := set(view.columns) - set(columns):
        return f"columns has {min(unknown)!r}; known columns are {', '.join(columns)}"
    return None


@dataclass(frozen=True, slots=True)
class Laid:
    """Finished rows: the parts of documents in each, ordered by row and offset."""

    rows: int
    """Number of rows."""
    row: Int64s
    document: Int64s
    start: Int64s
    length: Int64s
    repeats: NDArray[np.bool_]
    """For each row, True if it begins with the last `overlap` tokens of the previous row."""


class Layer:
    """Lay out documents by their lengths: `push` and `finish` yield rows as they are finished.

    The rows do not depend on how documents are split into calls. Documents are numbered from 0.
    """

    def __init__(self, view: View, count_trained: CountTrained | None = None) -> None:
        """Lay out by a view. With `count_trained`, drop a cut document without a trained token."""
        self.view = view
        self.document = 0
        """The first document that later rows may contain."""
        self.dropped: Counter[str] = Counter()
        """Dropped tokens by reason."""
        self.documents_dropped: Counter[str] = Counter()
        self._count_trained = count_trained
        self._seen = 0  # documents
        self._parts: list[tuple[Int64s, Int64s]] = []  # where the pending documents begin and end
        self._tokens = 0  # in the group so far
        self._group = max(GROUP_TOKENS, GROUP_ROWS * view.context_length)
        self._begun = False  # `concat` has made a row
        self._continued = False  # and the first pending document has a part in it

    def push(self, lengths: Int64s) -> Iterator[Laid]:
        """Add documents and yield the rows of each group of documents that is full."""
        ends = np.cumsum(lengths)
        done = taken = 0
        while done < len(lengths):
            # The group ends with the document that fills it.
            last = int(np.searchsorted(ends, taken + self._group - self._tokens))
            part = lengths[done : last + 1]
            self._parts.append(self._trim(part))
            self._tokens += int(ends[done + len(part) - 1]) - taken
            done += len(part)
            taken = int(ends[done - 1])
            if self._tokens >= self._group:
                yield from self._lay(last=False)

    def finish(self) -> Iterator[Laid]:
        """Yield the remaining rows."""
        if self._parts:
            yield from self._lay(last=True)

    def _trim(self, lengths: Int64s) -> tuple[Int64s, Int64s]:
        """Return the start and end of the kept part of each document, by `too_long`."""
        first, starts, ends = self._seen, np.zeros_like(lengths), lengths.copy()
        self._seen += len(lengths)
        policy, limit = self.view.too_long, self.view.context_length
        if policy is None or not (long := np.flatnonzero(lengths > limit)).size:
            return starts, ends
        if policy == "truncate":
            ends[long] = limit
        elif policy == "keep-last":
            starts[long] = ends[long] - limit
        else:
            ends[long] = 0
        if self._count_trained is not None:
            trained = self._count_trained(first + long, starts[long], ends[long])
            ends[long] = np.where(trained > 0, ends[long], starts[long])
        self.dropped["too_long"] += int((lengths - ends + starts)[long].sum())
        self.documents_dropped["too_long"] += int((ends == starts)[long].sum())
        return starts, ends

    def _lay(self, *, last: bool) -> Iterator[Laid]:
        starts, ends = (np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))
        self._parts, self._tokens = [], 0
        if self.view.packing == "concat":
            laid = self._lay_concat(starts, ends, last=last)
        else:
            lay = {"separate": _lay_separate, "bestfit": _lay_bestfit}[self.view.packing]
            laid = _lay_aligned(self.view, ends) if self.view.bos_aligned else lay(self.view, starts, ends)
            held = int(laid.length.sum()) - self.view.overlap * int(laid.repeats.sum())
            lost = np.count_nonzero(ends > starts) - len(np.unique(laid.document))
            reason = "cropped" if self.view.bos_aligned else "tail"
            self.dropped[reason] += int((ends - starts).sum()) - held
            self.documents_dropped[reason] += int(lost)
            laid = replace(laid, document=laid.document + self.document)
            self.document += len(ends)
        if laid.rows:
            yield laid

    def _lay_concat(self, starts: Int64s, ends: Int64s, *, last: bool) -> Laid:
        """Cut all pending documents into rows. Keep an incomplete row for the next call."""
        view = self.view
        stride = view.context_length - view.overlap
        offsets = make_offsets(round_up(ends - starts, view.multiple_of))
        total = int(offsets[-1])
        rows = max(0, (total - view.overlap) // stride)
        covered = rows * stride + view.overlap if rows or self._begun else 0
        if last and view.tail == "pad" and total > covered:
            rows, covered = rows + 1, total
        begins = np.arange(rows) * stride
        row, document, start, _, length = cut_ranges(
            offsets, begins, np.minimum(begins + view.context_length, total)
        )
        # Padding to a multiple is at the end of a document.
        start += starts[document]
        length = np.minimum(length, ends[document] - start)
        repeats = np.full(rows, view.overlap > 0)
        repeats[: 0 if self._begun else 1] = False
        laid = Laid(rows, row, document + self.document, start, length, repeats)
        self._begun = self._begun or rows > 0
        if last:
            left = np.clip(ends - starts - np.maximum(covered - offsets[:-1], 0), 0, None)
            lost = (offsets[:-1] >= covered) & (ends > starts)
            lost[0] &= not self._continued
            self.dropped["tail"] += int(left.sum())
            self.documents_dropped["tail"] += int(lost.sum())
            return laid
        # Keep the documents from the next row on.
        begin = rows * stride
        first = min(int(np.searchsorted(offsets, begin, side="right")) - 1, len(starts) - 1)
        rest = starts[first:].copy()
        rest[0] = min(rest[0] + begin - int(offsets[first]), ends[first])
        self._parts = [(rest, ends[first:])]
        self._continued = bool(rest[0] > starts[first] or (first == 0 and self._continued))
        self.document += first
        return laid


def round_up(lengths: Int64s, multiple: int) -> Int64s:
    """Round lengths up to a multiple: `round_up([3, 4], 4)` -> `[4, 4]`."""
    return lengths if multiple == 1 else -(-lengths // multiple) * multiple


def count_within(counts: Int64s) -> Int64s:
    """Return the positions within parts: `[2, 3]` -> `[0, 1, 0, 1, 2]`."""
    starts = np.cumsum(counts) - counts
    return np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts, counts)


def find_places(rows: Int64s, lengths: Int64s, multiple_of: int) -> Int64s:
    """Return the offset of each part in its row. Parts of a row are consecutive."""
    sizes = round_up(lengths, multiple_of)
    before = np.cumsum(sizes) - sizes
    firsts = np.flatnonzero(np.diff(rows, prepend=-1))
    return before - np.repeat(before[firsts], np.diff(firsts, append=len(rows)))


def cut_ranges(offsets: NDArray[Any], begins: Int64s, ends: Int64s) -> tuple[Int64s, ...]:
    """Cut ranges of positions at the documents that `offsets` bound.

    Return (range, document, start in the document, place in the range, length) of each part.
    """
    # The values must have the type of mapped offsets, or NumPy would convert the whole file.
    first = np.searchsorted(offsets, begins.astype(offsets.dtype), side="right") - 1
    counts = np.searchsorted(offsets, ends.astype(offsets.dtype)) - first
    counts = np.where(ends > begins, counts, 0)
    owner = np.repeat(np.arange(len(begins)), counts)
    document = first[owner] + count_within(counts)
    low, high = offsets[document].astype(np.int64), offsets[document + 1].astype(np.int64)
    begin, end = np.maximum(low, begins[owner]), np.minimum(high, ends[owner])
    kept = end > begin
    parts = (owner, document, begin - low, begin - begins[owner], end - begin)
    return tuple(part[kept] for part in parts)


def _cut_documents(starts: Int64s, ends: Int64s, length: int, overlap: int) -> tuple[Int64s, Int64s, Int64s]:
    """Return (document, start, length) of windows of each document: `[7], 4, 1` -> `0123`, `3456`."""
    stride, sizes = length - overlap, ends - starts
    windows = np.where(sizes > length, -(-(sizes - length) // stride) + 1, sizes > 0).astype(np.int64)
    document = np.repeat(np.arange(len(sizes)), windows)
    start = starts[document] + count_within(windows) * stride
    return document, start, np.minimum(ends[document] - start, length)


def _lay_separate(view: View, starts: Int64s, ends: Int64s) -> Laid:
    document, start, length = _cut_documents(starts, ends, view.context_length, view.overlap)
    kept = length == view.context_length if view.tail == "drop" else length > 0
    document, start, length = document[kept], start[kept], length[kept]
    repeats = (start > starts[document]) & (view.overlap > 0)
    return Laid(len(start), np.arange(len(start)), document, start, length, repeats)


def _lay_bestfit(view: View, starts: Int64s, ends: Int64s) -> Laid:
    """Lay out whole documents where they fit. A longer document gives full rows and a remainder.

    Rows are in the order in which they were opened; within a row the longest part is first.
    """
    limit = view.context_length
    document, start, length = _cut_documents(starts, ends, limit, 0)
    sizes = np.ascontiguousarray(round_up(length, view.multiple_of))
    row, place = _core.best_fit(sizes, limit, view.max_documents)
    order = np.argsort(row * limit + place, kind="stable")
    rows = int(row.max(initial=-1)) + 1
    row, document, start, length = (each[order] for each in (row, document, start, length))
    return Laid(rows, row, document, start, length, np.zeros(rows, bool))


def _lay_aligned(view: View, lengths: Int64s) -> Laid:
    """Fill each row with the longest documents that fit, then with the start of the shortest one.

    An incomplete last row is dropped. Of documents of equal length the first is used first.
    """
    sizes = round_up(lengths, view.multiple_of)
    order = np.lexsort((-np.arange(len(sizes)), sizes))
    order = order[sizes[order] > 0]
    known, items = sizes[order].tolist(), order.tolist()
    row, document, room, rows = [], [], view.context_length, 0
    while items:
        at = max(bisect_right(known, room) - 1, 0)
        size = known.pop(at)
        row.append(rows)
        document.append(items.pop(at))
        room -= min(size, room)
        if not room:
            rows, room = rows + 1, view.context_length
    numbers = np.array(row, dtype=np.int64)
    full = numbers < rows
    numbers, chosen = numbers[full], np.array(document, dtype=np.int64)[full]
    places = find_places(numbers, np.minimum(lengths[chosen], view.context_length), view.multiple_of)
    length = np.minimum(lengths[chosen], view.context_length - places)
    return Laid(rows, numbers, chosen, np.zeros_like(chosen), length, np.zeros(rows, bool))
