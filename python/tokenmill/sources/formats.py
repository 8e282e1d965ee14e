"""The formats that are read: how a file is named and begins, and where the code of each is.

A new one is an entry here and a module with what the entry names (and a choice of the setting `format`, which
a test holds against this table).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tokenmill.errors import InputError
from tokenmill.sources.model import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.fields import Request
    from tokenmill.sources.model import Block, InputFile, Range


@dataclass(frozen=True, slots=True)
class InputFormat:
    """One format. The functions are named as `module:function` of this room.

    They are imported when used, since some bring Arrow along and most jobs need one.
    """

    name: str
    suffixes: tuple[str, ...]
    reader: str
    # Names of the fields: those of strings, and all; none where a file has no fields.
    fields: str | None = None
    # Ranges of about so many bytes; None where the file at hand cannot be entered in the middle.
    cut: str | None = None
    magic: tuple[bytes, ...] = ()

    def read(self, request: Request) -> Iterator[Block]:
        """The blocks of a range."""
        blocks: Iterator[Block] = _load(self.reader)(request)
        return blocks

    def list_fields(self, file: InputFile, config: SourceConfig) -> tuple[list[str], list[str]]:
        """Fields that hold strings, and all fields; nothing of a format without fields."""
        found: tuple[list[str], list[str]] = _load(self.fields)(file, config) if self.fields else ([], [])
        return found

    def cut_ranges(self, file: InputFile, unit_bytes: int) -> list[Range] | None:
        """Where a file can be cut, if it can."""
        found: list[Range] | None = _load(self.cut)(file, unit_bytes) if self.cut else None
        return found


@cache
def _load(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(f"tokenmill.sources.{module}"), function)


_TXT = InputFormat("txt", (".txt", ".text", ".md"), "records:read_txt", cut="ranges:cut_lines")
_JSONL = InputFormat(
    "jsonl",
    (".jsonl", ".ndjson", ".jsonlines"),
    "records:read_jsonl",
    fields="heads:list_jsonl_fields",
    cut="ranges:cut_lines",
)
_JSON = InputFormat("json", (".json",), "structured:read_json", fields="heads:list_json_fields")
_CSV = InputFormat("csv", (".csv",), "structured:read_csv", fields="heads:list_csv_fields")
_TSV = InputFormat("tsv", (".tsv",), "structured:read_csv", fields="heads:list_csv_fields")
_PARQUET = InputFormat(
    "parquet",
    (".parquet", ".pq"),
    "columnar:read_parquet",
    fields="columnar:list_parquet_fields",
    cut="columnar:cut_groups",
    magic=(b"PAR1",),
)
_ARROW = InputFormat(
    "arrow",
    (".arrow", ".feather", ".ipc", ".arrows"),
    "columnar:read_arrow",
    fields="columnar:list_arrow_fields",
    cut="columnar:cut_batches",
    magic=(b"ARROW1", b"\xff\xff\xff\xff"),
)
_MEMORY = InputFormat(
    MEMORY, (), "memory:read_memory", fields="memory:list_memory_fields", cut="memory:cut_rows"
)
FORMATS = {format_.name: format_ for format_ in (_TXT, _JSONL, _JSON, _CSV, _TSV, _PARQUET, _ARROW, _MEMORY)}


def find_input_format(file: InputFile) -> InputFormat:
    """The format of an input."""
    if file.format not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        raise InputError(f"{file.url}: format {file.format!r} is not known; use one of {known}")
    return FORMATS[file.format]


def find_format_by_suffix(suffix: str) -> str | None:
    """`".ndjson"` -> `"jsonl"`."""
    return next((format_.name for format_ in FORMATS.values() if suffix in format_.suffixes), None)


def detect_binary_format(head: bytes) -> str | None:
    """The format that the first bytes show; only columnar ones have a mark."""
    return next((format_.name for format_ in FORMATS.values() if head.startswith(format_.magic)), None)
