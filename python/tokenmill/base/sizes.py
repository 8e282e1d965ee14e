"""Sizes as people write them, `825GB` or `64MiB`, to bytes; settings and flags share this one parser."""

from __future__ import annotations

import re

_LETTERS = "KMGTP"
UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate(_LETTERS, start=1):
    UNITS |= {_letter: 1000**_power, f"{_letter}B": 1000**_power}
    UNITS |= {f"{_letter}I": 1024**_power, f"{_letter}IB": 1024**_power}

# The exponent has two digits at most: `1e999999999` must be an error, not a number that fills the memory.
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE]\d{1,2})?)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_size(text: str) -> int:
    """`"825GB"` -> `825000000000`; `"1.5 KiB"` -> `1536`; a `ValueError` for anything else."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2].upper() not in UNITS:
        raise ValueError(f"{text!r} is not a size; write it as 825GB, 1.5TB or 64MiB")
    from decimal import Decimal  # here, since most sizes are whole numbers

    return int(Decimal(match[1]) * UNITS[match[2].upper()])
