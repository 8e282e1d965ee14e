"""Numbers for people: sizes, durations, counts."""

from __future__ import annotations


def size(count: float) -> str:
    """`size(1_234_567)` -> `"1.2 MB"`."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def number(count: float) -> str:
    """`number(1_234_567)` -> `"1.2 M"`."""
    for unit in ("", " k", " M", " G"):
        if abs(count) < 1000:
            return f"{count:.0f}" if unit == "" else f"{count:.1f}{unit}"
        count /= 1000
    return f"{count:.1f} T"


def duration(seconds: float) -> str:
    """`duration(3723)` -> `"1:02:03"`; `duration(83)` -> `"01:23"`."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    tail = f"{minutes:02d}:{whole % 60:02d}"
    return f"{hours}:{tail}" if hours else tail
