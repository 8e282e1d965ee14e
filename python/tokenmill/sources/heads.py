"""What the first bytes of a structured file tell: a header, or a few records to choose fields from."""

from __future__ import annotations

import codecs
import io
from itertools import pairwise
from typing import TYPE_CHECKING

from tokenmill import _core
from tokenmill.errors import InputError
from tokenmill.sources.identify import read_decoded_head

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.model import InputFile

DELIMITERS = {"csv": ",", "tsv": "\t"}
SAMPLE_RECORDS = 100
# How a string and a null begin.
_TEXT, _NULL = '"', "n"


def list_csv_fields(file: InputFile, config: SourceConfig) -> tuple[list[str], list[str]]:
    """The names of the first row; a delimited file has only strings."""
    head = read_decoded_head(file, config.max_expansion)
    names = read_csv_header(head, DELIMITERS[file.format], file.url)[0]
    return names, names


def list_jsonl_fields(file: InputFile, config: SourceConfig) -> tuple[list[str], list[str]]:
    """The fields of the first lines, bad lines left out; of one huge line, those that the head has."""
    head = read_decoded_head(file, config.max_expansion).removeprefix(codecs.BOM_UTF8)
    lines = head.split(b"\n", SAMPLE_RECORDS)
    found = [_core.json_members(line) for line in lines[:SAMPLE_RECORDS]]
    return collect_fields(
        map(_mark_strings, (members for members, whole in found if whole or len(lines) == 1))
    )


def list_json_fields(file: InputFile, config: SourceConfig) -> tuple[list[str], list[str]]:
    """The fields of the first records of one JSON value, as far as the head has them whole."""
    head = read_decoded_head(file, config.max_expansion).removeprefix(codecs.BOM_UTF8)
    return collect_fields(map(_mark_strings, _read_value_records(head)))


def collect_fields(records: Iterable[Mapping[str, bool]]) -> tuple[list[str], list[str]]:
    """Names that hold a string (or null) in every record that has them, and all names."""
    kinds: dict[str, bool] = {}
    for record in records:
        for name, string in record.items():
            kinds[name] = kinds.get(name, True) and string
    return [name for name, string in kinds.items() if string], list(kinds)


def read_csv_header(head: bytes, delimiter: str, url: str) -> tuple[list[str], int]:
    r"""Names of the fields and the length of the row that has them: `b"a,b\n1,2"` -> `(["a", "b"], 4)`."""
    import csv  # here, since most inputs are something else

    end = -1
    while (end := head.find(b"\n", end + 1)) >= 0 and head.count(b'"', 0, end) % 2:
        continue
    row = head if end < 0 else head[: end + 1]
    try:
        names = next(csv.reader(io.StringIO(row.decode("utf-8-sig"), newline=""), delimiter=delimiter), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{url}:1: the first row must name the fields, but cannot be read: {error}"
        ) from error
    return names, len(row)


def is_single_record(head: bytes, roots: Sequence[str], *, text: bool = True) -> bool:
    """Whether the value is itself a record: an object in which a wanted field is a string, or is there."""
    members, _ = _core.json_members(head.removeprefix(codecs.BOM_UTF8))
    return any(name in roots and (not text or first == _TEXT) for name, first in members)


def _read_value_records(head: bytes) -> Iterator[list[tuple[str, str]]]:
    """The members of each record, and of the value itself if it has a text."""
    whole = _core.JsonlReader([[]], [], limit=len(head) + 1, replace=True)
    # The comma ends a record that the head ends with.
    records = whole.read_elements(head + b",", 0, last=False)[0]
    data, offsets = records.texts
    for start, end in pairwise(offsets[: SAMPLE_RECORDS + 1]):
        yield _core.json_members(bytes(data[start:end]))[0]
    top = [(name, first) for name, first in _core.json_members(head)[0] if first not in "[{"]
    if any(first == _TEXT for _, first in top):
        yield top


def _mark_strings(members: Iterable[tuple[str, str]]) -> dict[str, bool]:
    return {name: first in {_TEXT, _NULL} for name, first in members}
