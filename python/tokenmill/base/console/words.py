"""Numbers for people: sizes, durations, counts."""

from __future__ import annotations


def size(count: float) -> str:
    """`size(1_234_567)` -> `"1.2 MB"`."""
    return _scale(count, (" B", " kB", " MB", " GB", " TB"))


def amount(count: int, noun: str) -> str:
    """`amount(1, "shard")` -> `"1 shard"`; `amount(1234, "file")` -> `"1,234 files"`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def number(count: float) -> str:
    """`number(1_234_567)` -> `"1.2 M"`."""
    return _scale(count, ("", " k", " M", " G", " T"))


def _scale(count: float, units: tuple[str, ...]) -> str:
    """The first unit that leaves fewer than a thousand, or the last; the smallest has no decimals."""
    power = 0
    while abs(count) >= 1000 and power < len(units) - 1:
        count /= 1000
        power += 1
    return f"{count:.{1 if power else 0}f}{units[power]}"


def duration(seconds: float) -> str:
    """`duration(3723)` -> `"1:02:03"`; `duration(83)` -> `"01:23"`."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    tail = f"{minutes:02d}:{whole % 60:02d}"
    return f"{hours}:{tail}" if hours else tail
