"""What a file is: by its name and by its first bytes, which must agree."""

from __future__ import annotations

import json
from typing import NamedTuple

from tokenmill.sources.compression import detect_compression, find_compression
from tokenmill.sources.formats import FORMATS, detect_binary_format, find_format_by_suffix

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
HEAD_BYTES = 1 << 20


class Named(NamedTuple):
    """What a name promises."""

    format: str | None
    compression: str | None


def parse_name(name: str) -> Named:
    """`"a/b.jsonl.zst"` -> `("jsonl", "zstd")`."""
    # Plain text: pathlib was a fifth of the time to list many files. A leading dot hides, and is no suffix.
    last = name.rstrip("/").rpartition("/")[2].lstrip(".")
    suffixes = [f".{each.lower()}" for each in last.split(".")[1:]] if not last.endswith(".") else []
    compression = find_compression(suffixes[-1]) if suffixes else None
    rest = suffixes[:-1] if compression else suffixes
    return Named(find_format_by_suffix(rest[-1]) if rest else None, compression)


def detect_text_format(head: bytes) -> str:
    """Which text format decoded first bytes look like: jsonl, json or txt."""
    stripped = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if stripped.startswith(b"["):
        return "json"
    line, newline, _ = stripped.partition(b"\n")
    if not stripped.startswith(b"{"):
        return "txt"
    try:
        json.loads(line)
    except RecursionError:
        return "jsonl"  # whose reader says where it is too deep
    except ValueError:
        return "jsonl" if not newline else "json"
    return "jsonl"


def is_lines_of_json(head: bytes) -> bool:
    """Whether a file named `.json` holds JSON Lines, as many published corpora do."""
    first, _, rest = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    if not first.startswith(b"{") or not rest.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def find_disagreement(name: str, named: Named, head: bytes) -> str | None:
    """What is wrong with the name, in words; nothing if name and first bytes agree."""
    compression, binary = detect_compression(head), detect_binary_format(head)
    if head.startswith(_UTF16_MARKS) and not binary:
        return f"{name} is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8"
    if named.compression != compression and (head or named.compression):
        found = compression or (f"bytes {head[:8]!r}" if head else "an empty file")
        return f"{name} should be {named.compression or 'uncompressed'} by its name, but holds {found}"
    marked = named.format is not None and bool(FORMATS[named.format].magic)
    if compression is None and marked and binary != named.format:
        found = binary or (f"bytes {head[:8]!r}" if head else "an empty file")
        return f"{name} should be {named.format} by its name, but holds {found}"
    if compression is None and binary and named.format not in {binary, None}:
        return f"{name} should be {named.format} by its name, but holds {binary}"
    return None
