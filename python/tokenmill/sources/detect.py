"""What a file is: by its name and by its first bytes, which must agree."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tokenmill.sources.model import Compression

COMPRESSION_OF_SUFFIX: dict[str, Compression] = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".bz2": "bz2",
    ".xz": "xz",
    ".lz4": "lz4",
}
FORMAT_OF_SUFFIX = {
    ".txt": "txt",
    ".text": "txt",
    ".md": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonlines": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
}
_COMPRESSION_MAGIC: tuple[tuple[bytes, Compression], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x04\x22\x4d\x18", "lz4"),
)
_BINARY_FORMATS = {"parquet", "arrow"}
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
HEAD_BYTES = 1 << 20


class Named(NamedTuple):
    """What a name promises."""

    format: str | None
    compression: Compression | None


def by_name(name: str) -> Named:
    """`"a/b.jsonl.zst"` -> `("jsonl", "zstd")`."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
    compression = COMPRESSION_OF_SUFFIX.get(suffixes[-1]) if suffixes else None
    rest = suffixes[:-1] if compression else suffixes
    return Named(FORMAT_OF_SUFFIX.get(rest[-1]) if rest else None, compression)


def compression_of(head: bytes) -> Compression | None:
    """The compression that the first bytes show, if any."""
    if len(head) >= 8 and head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F:
        return "zstd"  # a skippable frame may come first
    return next((kind for magic, kind in _COMPRESSION_MAGIC if head.startswith(magic)), None)


def binary_format_of(head: bytes) -> str | None:
    """The columnar format that the first bytes show, if any."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return None


def text_format_of(head: bytes) -> str:
    """Which text format decoded first bytes look like: jsonl, json or txt."""
    stripped = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if stripped.startswith(b"["):
        return "json"
    line, newline, _ = stripped.partition(b"\n")
    if not stripped.startswith(b"{"):
        return "txt"
    try:
        json.loads(line)
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


def disagreement(name: str, named: Named, head: bytes) -> str | None:
    """What is wrong with the name, in words; nothing if name and first bytes agree."""
    compression, binary = compression_of(head), binary_format_of(head)
    if head.startswith(_UTF16_MARKS) and not binary:
        return f"{name} is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8"
    if named.compression != compression and (head or named.compression):
        found = compression or (f"bytes {head[:8]!r}" if head else "an empty file")
        return f"{name} is named as {named.compression or 'not compressed'}, but holds {found}"
    if compression is None and named.format in _BINARY_FORMATS and binary != named.format:
        found = binary or (f"bytes {head[:8]!r}" if head else "an empty file")
        return f"{name} is named as {named.format}, but holds {found}"
    if compression is None and binary and named.format not in {binary, None}:
        return f"{name} is named as {named.format}, but holds {binary}"
    return None
