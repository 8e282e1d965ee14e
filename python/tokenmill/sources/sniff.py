"""Detect format, compression and text mode of a file by its name and its first bytes, which must agree."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import chain, pairwise
from typing import Any, NamedTuple

from tokenmill import _core
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources.model import MEMORY, FileFaultError, InputFile
from tokenmill.sources.raw import RawFile, read_head, read_start

# The suffixes of each format.
SUFFIXES = {
    "txt": (".txt", ".text", ".md"),
    "jsonl": (".jsonl", ".ndjson", ".jsonlines"),
    "json": (".json",),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc", ".arrows"),
}
_COMPRESSIONS = {
    "gzip": (".gz", ".gzip"),
    "zstd": (".zst", ".zstd"),
    "bz2": (".bz2",),
    "xz": (".xz",),
    "lz4": (".lz4",),
}
_BY_SUFFIX = {suffix: name for name, suffixes in (SUFFIXES | _COMPRESSIONS).items() for suffix in suffixes}
# A zstd file may begin with a skippable frame, whose first byte is 0x50 to 0x5f.
_MAGIC = {
    "parquet": (b"PAR1",),
    "arrow": (b"ARROW1", b"\xff\xff\xff\xff"),
    "gzip": (b"\x1f\x8b",),
    "zstd": (b"\x28\xb5\x2f\xfd", *(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))),
    "bz2": (b"BZh",),
    "xz": (b"\xfd7zXZ\x00",),
    "lz4": (b"\x04\x22\x4d\x18",),
}
# The module of each format has `read`, `list_fields` and `cut`. It is imported when used: some need Arrow.
_READERS = {
    **dict.fromkeys(("txt", "jsonl"), "records"),
    **dict.fromkeys(("json", "csv", "tsv"), "structured"),
    **dict.fromkeys(("parquet", "arrow"), "columnar"),
    MEMORY: "memory",
}
_BLANK = b"\xef\xbb\xbf \t\r\n"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
DEFAULT_SEPARATOR = "<|endoftext|>"
_START_BYTES = 64 << 10


class Named(NamedTuple):
    """Format and compression according to the suffixes of a file name."""

    format: str | None
    compression: str | None


def get_reader(file: InputFile) -> Any:
    """Return the module that reads an input."""
    return import_module(f"tokenmill.sources.{_READERS[file.format]}")


def parse_name(name: str) -> Named:
    """Parse the suffixes of a name: `"a/b.jsonl.zst"` -> `("jsonl", "zstd")`."""
    # Not pathlib, which takes long for many files. A leading dot is not a suffix.
    last = name.rstrip("/").rpartition("/")[2].lstrip(".")
    suffixes = [f".{each.lower()}" for each in last.split(".")[1:]] if not last.endswith(".") else []
    kind = _BY_SUFFIX.get(suffixes[-1]) if suffixes else None
    if kind not in _COMPRESSIONS:
        return Named(kind, None)
    inner = _BY_SUFFIX.get(suffixes[-2]) if len(suffixes) > 1 else None
    return Named(None if inner in _COMPRESSIONS else inner, kind)


def identify(url: str, size: int, identity: str, config: SourceConfig) -> InputFile:
    """Return an input with its format; the user's `format` overrides its name and first bytes."""
    named = parse_name(url)
    file = InputFile(url, size, identity, named.format or "")
    try:
        with RawFile(file) as raw:
            start = raw.read(_START_BYTES)
    except FileFaultError:
        if config.on_error == "fail":
            raise
        return replace(file, format=named.format or "jsonl", compression=named.compression)
    content = next((kind for kind, magic in _MAGIC.items() if start.startswith(magic)), None)
    wrong = _find_disagreement(url, named, content, start)
    if wrong and config.on_error == "fail":
        raise FileFaultError("wrong_extension", url, wrong)
    compression = content if content in _COMPRESSIONS else None
    file = replace(file, compression=compression, notes=(wrong,) if wrong else ())

    def read_decoded() -> bytes:
        complete = compression is None and len(start) == size
        return start if complete else read_head(file)

    if config.format not in {"auto", "hf"}:
        kind = str(config.format)
    elif content in SUFFIXES:
        kind = content
    elif named.format and not wrong:
        kind = named.format
    else:
        kind = _detect_text_format(read_decoded())
    if kind == "json" and config.format != "json" and _is_lines_of_json(read_decoded()):
        note = f"{url} is named .json but contains JSON Lines, and is read as such"
        return replace(file, format="jsonl", notes=(*file.notes, note))
    file = replace(file, format=kind)
    return _choose_txt_mode(file, config, start) if kind == "txt" else file


def _detect_text_format(head: bytes) -> str:
    line, newline, _ = head.lstrip(_BLANK).partition(b"\n")
    if not line.startswith((b"[", b"{")):
        return "txt"
    is_record = _core.json_members(line)[1] or (line.startswith(b"{") and not newline)
    return "jsonl" if is_record else "json"


def _is_lines_of_json(head: bytes) -> bool:
    """Return True if a file named `.json` holds JSON Lines, as many published corpora do."""
    second = head.lstrip(_BLANK).partition(b"\n")[2].lstrip()
    return second.startswith(b"{") and _detect_text_format(head) == "jsonl"


def _find_disagreement(name: str, named: Named, content: str | None, start: bytes) -> str | None:
    """Return a message if the name contradicts the first bytes, or None."""
    if start.startswith(_UTF16_MARKS) and content is None:
        return f"{name} is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8"
    claimed = named.compression or named.format
    if claimed is None or content == (claimed if claimed in _MAGIC else None):
        return None
    found = content or (f"bytes {start[:8]!r}" if start else "an empty file")
    return f"{name} should be {claimed} by its name, but contains {found}"


def _choose_txt_mode(file: InputFile, config: SourceConfig, start: bytes) -> InputFile:
    separator, mode = config.document_separator or DEFAULT_SEPARATOR, config.txt_mode
    if mode == "auto":
        mark, whole = separator.encode(), file.compression is None and file.size == len(start)
        # A longer document is an error, so the first separator is within this limit.
        blocks = [start] if whole else read_start(file, config.max_record_bytes)
        pairs = pairwise(chain([b""], blocks))
        found = config.document_separator or any(mark in left[-len(mark) :] + right for left, right in pairs)
        mode = "separator" if found else "file"
    return replace(file, txt_mode=mode, separator=separator if mode == "separator" else None)
