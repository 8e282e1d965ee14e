"""Where `tokenizers` cuts a text or a pair that is too long: the kept part first, then its overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Cut = tuple[int, int]


class UnusualError(Exception):
    """A request that is not handled here; the caller lets `tokenizers` do it, or say what is wrong."""


def cut_texts(first: int, second: int | None, room: int, options: Mapping[str, Any]) -> list[list[Cut]]:
    """The parts of each text, given the lengths of both and the ids that there is room for."""
    lengths = [first] if second is None else [first, second]
    whole = [[(0, length)] for length in lengths]
    excess = sum(lengths) - room
    if excess <= 0 and room > 0:
        return whole
    if room <= 0:
        raise UnusualError
    targets = _choose_lengths(lengths, room, excess, options["strategy"])
    return [
        parts if target >= length else _cut(length, target, options["stride"], options["direction"])
        for parts, length, target in zip(whole, lengths, targets, strict=True)
    ]


def _choose_lengths(lengths: list[int], room: int, excess: int, strategy: str) -> list[int]:
    """How many ids each text may keep."""
    if strategy == "longest_first":
        return [room] if len(lengths) == 1 else _share(lengths[0], lengths[1], room)
    place = {"only_first": 0, "only_second": 1}[strategy]
    if place >= len(lengths) or lengths[place] <= excess:
        raise UnusualError
    return [length - excess if i == place else length for i, length in enumerate(lengths)]


def _share(first: int, second: int, room: int) -> list[int]:
    """The longer one is cut first; if both are too long they get the same, and the longer any odd id."""
    short = min(first, second)
    long = short if short > room else max(short, room - short)
    if short + long > room:
        short = room // 2
        long = short + room % 2
    return [long, short] if first > second else [short, long]


def _cut(length: int, most: int, stride: int, direction: str) -> list[Cut]:
    if stride >= most or most <= 0:
        raise UnusualError
    step = most - stride
    if direction == "right":
        starts = range(0, length, step)
        last = next(start for start in starts if start + most >= length)
        return [(start, min(start + most, length)) for start in range(0, last + 1, step)]
    cuts: list[Cut] = []
    for stop in range(length, 0, -step):
        cuts.append((max(0, stop - most), stop))
        if stop <= most:
            break
    return cuts


def pad_length(longest: int, padding: Mapping[str, Any]) -> int:
    """How long each row is to be: a length that was set or the longest, rounded up to a multiple."""
    length = longest if padding["length"] is None else int(padding["length"])
    multiple = padding["pad_to_multiple_of"] or 0
    return length + -length % multiple if multiple > 0 else length
