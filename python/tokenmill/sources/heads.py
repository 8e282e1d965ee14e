"""What the first bytes of a structured file tell: a header, or a few records to choose fields from."""

from __future__ import annotations

import codecs
import io
import json
import re
from typing import TYPE_CHECKING, Any

from tokenmill.base.errors import InputError
from tokenmill.sources.identify import decoded_head

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.model import InputFile

DELIMITERS = {"csv": ",", "tsv": "\t"}
SAMPLE_RECORDS = 100
# Enough of them to choose by: records are parsed in Python here.
SAMPLE_CHARACTERS = 1 << 17
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def csv_names(file: InputFile, config: SourceConfig) -> tuple[list[str], list[str]]:
    """The names of the first row; a delimited file has only strings."""
    head = decoded_head(file, config.max_expansion)
    names = csv_header(head, DELIMITERS[file.format], file.url)[0]
    return names, names


def jsonl_names(file: InputFile, config: SourceConfig) -> tuple[list[str], list[str]]:
    """The fields of the first lines."""
    return names_of(_line_records(decoded_head(file, config.max_expansion)))


def json_names(file: InputFile, config: SourceConfig) -> tuple[list[str], list[str]]:
    """The fields of the first records of one JSON value."""
    return names_of(_value_records(decoded_head(file, config.max_expansion)))


def names_of(records: Iterable[Any]) -> tuple[list[str], list[str]]:
    """Names that hold a string in every record that has them, and all names."""
    kinds: dict[str, bool] = {}
    for record in records:
        if isinstance(record, dict):
            for name, value in record.items():
                kinds[name] = kinds.get(name, True) and (value is None or isinstance(value, str))
    return [name for name, string in kinds.items() if string], list(kinds)


def csv_header(head: bytes, delimiter: str, url: str) -> tuple[list[str], int]:
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


def _line_records(head: bytes) -> Iterator[Any]:
    """The first values of JSON Lines, bad lines left out; of one huge line, what the head has of it."""
    lines = head.removeprefix(codecs.BOM_UTF8).split(b"\n", SAMPLE_RECORDS)
    seen = 0
    for data in lines[:SAMPLE_RECORDS]:
        if seen > SAMPLE_CHARACTERS:
            return
        # One at a time: a head has more lines than are looked at.
        line = data.decode("utf-8", "replace")
        seen += len(line)
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            if len(lines) == 1:
                yield dict(_members(line, _skip(line, 0)))


def _value_records(head: bytes) -> Iterator[dict[str, Any]]:
    """The first records of one JSON value, as far as `head` has them whole."""
    text = head.decode("utf-8-sig", "ignore")
    start = _skip(text, 0)
    if text.startswith("[", start):
        yield from (record for record in _array(text, start) if isinstance(record, dict))
        return
    top = {}
    for name, value in _members(text, start):
        if isinstance(value, dict):
            yield value
        elif isinstance(value, list):
            yield from (record for record in value if isinstance(record, dict))
        else:
            top[name] = value
    if any(isinstance(value, str) for value in top.values()):
        yield top


def is_single_record(head: bytes, roots: Sequence[str], *, text: bool = True) -> bool:
    """Whether the value is itself a record: an object in which a wanted field is a string, or is there."""
    whole = head.decode("utf-8-sig", "ignore")
    members = _members(whole, _skip(whole, 0))
    return any(name in roots and (not text or isinstance(value, str)) for name, value in members)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _array(text: str, at: int) -> Iterator[Any]:
    """Elements of the array at `at`, until the head ends or breaks."""
    at = _skip(text, at + 1)
    try:
        for _ in range(SAMPLE_RECORDS):
            value, at = _DECODER.raw_decode(text, at)
            yield value
            at = _skip(text, at)
            if not text.startswith(",", at):
                return
            at = _skip(text, at + 1)
    except (ValueError, RecursionError):
        return


def _members(text: str, at: int) -> Iterator[tuple[str, Any]]:
    """Members of the object at `at`; an array or string that the head cuts off goes as far as it does."""
    if not text.startswith("{", at):
        return
    while True:
        at = _skip(text, at + 1)
        try:
            name, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        at = _skip(text, _skip(text, at) + 1)
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            if text.startswith("[", at):
                yield name, list(_array(text, at))
            elif text.startswith('"', at):
                yield name, text[at + 1 :]
            return
        yield name, value
        at = _skip(text, end)
        if not text.startswith(",", at):
            return
