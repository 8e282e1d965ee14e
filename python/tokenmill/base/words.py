"""Format and parse short texts: sizes, counts, durations, versions, and suggestions for typos."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGTP", start=1):
    UNITS |= {_letter: 1000**_power, f"{_letter}B": 1000**_power}
    UNITS |= {f"{_letter}I": 1024**_power, f"{_letter}IB": 1024**_power}
# At most two digits of exponent: `1e999999999` must be an error, not a number that fills the memory.
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE]\d{1,2})?)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_size(text: str) -> int:
    """Return the bytes of a size: `"825GB"` -> `825000000000`, `"1.5 KiB"` -> `1536`."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2].upper() not in UNITS:
        raise ValueError(f"{text!r} is not a size; write it as 825GB, 1.5TB or 64MiB")
    from decimal import Decimal

    return int(Decimal(match[1]) * UNITS[match[2].upper()])


def size(count: float) -> str:
    """Format bytes: `size(1_234_567)` -> `"1.2 MB"`."""
    return _scale(count, (" B", " kB", " MB", " GB", " TB"))


def number(count: float) -> str:
    """Format a number: `number(1_234_567)` -> `"1.2 M"`."""
    return _scale(count, ("", " k", " M", " G", " T"))


def amount(count: int, noun: str) -> str:
    """Format a count: `amount(1, "shard")` -> `"1 shard"`, `amount(1234, "file")` -> `"1,234 files"`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _scale(count: float, units: tuple[str, ...]) -> str:
    power = 0
    while abs(count) >= 1000 and power < len(units) - 1:
        count /= 1000
        power += 1
    return f"{count:.{1 if power else 0}f}{units[power]}"


def duration(seconds: float) -> str:
    """Format seconds: `duration(3723)` -> `"1:02:03"`, `duration(83)` -> `"01:23"`."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    tail = f"{minutes:02d}:{whole % 60:02d}"
    return f"{hours}:{tail}" if hours else tail


def find_similar(word: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.8) -> list[str]:
    """Return the known words closest to a misspelled `word`, the closest first."""
    from difflib import get_close_matches

    return get_close_matches(word, list(known), most, cutoff)


def suggest_paths(path: Path) -> list[Path]:
    """Return files with a similar name in the directory of a missing path."""
    try:
        beside = [each.name for each in path.parent.iterdir() if each.name[:1] != "."]
    except OSError:
        return []
    return [path.with_name(name) for name in find_similar(path.name, beside)]
