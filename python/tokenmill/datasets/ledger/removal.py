"""Documents taken out of a dataset: the record beside the manifest, and the list that names them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import publish_bytes
from tokenmill.base.records import Count, Record, encode_record, open_record, read_record, to_plain, validate
from tokenmill.errors import ConfigError, DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator

REMOVED = "removed.json"
REMOVED_VERSION = 1
# What the account calls documents that were taken out without a reason.
REASON = "removed"
_WAYS = ("document", "record", "id", "contains")


@dataclass(frozen=True, slots=True)
class RemovedDocument:
    """One document: its number in the dataset as it was, and why it was removed."""

    number: Count
    reason: str = REASON


@dataclass(frozen=True, slots=True)
class Removal(Record):
    """All that was taken out of the dataset with that content hash, by rising number."""

    content_hash: str
    documents: tuple[RemovedDocument, ...]


def save_removal(root: Path, removal: Removal) -> None:
    """Publish it beside the manifest to come."""
    value = {"removed_version": REMOVED_VERSION} | to_plain(removal)
    publish_bytes(root / REMOVED, encode_record(value))


def load_removal(root: Path) -> Removal | None:
    """Return what was taken out of a dataset, or None."""
    path = root / REMOVED
    return parse_removal(read_record(path), str(path)) if path.exists() else None


def parse_removal(data: bytes, where: str) -> Removal:
    """Return the record in a file; raise `DatasetError` if it is corrupt or of another version."""
    return validate(Removal, open_record(data, where, "removed_version", REMOVED_VERSION), where)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One line of a list of documents: one of a number, `FILE:ROW`, an id or a text, and a reason."""

    line: int
    way: str
    value: Any
    reason: str


def read_list(path: str | Path) -> Iterator[Wanted]:
    """Yield the lines of a file: `FILE:ROW`, or a JSON object with one of the ways to name a document."""
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.lstrip().startswith("{"):
            yield Wanted(number, "record", line.strip(), REASON)
            continue
        try:
            item = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{path}:{number}: not JSON ({error})") from None
        yield _read_item(item, f"{path}:{number}", number)


def _read_item(item: dict[str, Any], where: str, number: int) -> Wanted:
    reason = item.pop("reason", REASON)
    if item.keys() == {"file", "row"}:
        item = {"record": f"{item['file']}:{item['row']}"}
    if len(item) != 1 or not item.keys() <= set(_WAYS):
        found = next((key for key in item if key not in _WAYS), ", ".join(item) or "nothing")
        raise ConfigError(
            f"{where}: found {found}; name a document by one of document, id, contains, or file and row, "
            "with a reason if you like"
        )
    way, value = next(iter(item.items()))
    kind = int if way == "document" else str
    if type(value) is not kind or not isinstance(reason, str) or not reason:
        expected = "a whole number" if kind is int else "text"
        raise ConfigError(
            f"{where}: {way} is {value!r} and reason is {reason!r}; expected {expected} and some text"
        )
    return Wanted(number, way, value, reason)


def check_numbers(removal: Removal, documents: int) -> None:
    """Raise `DatasetError` unless every number is of a document that is there."""
    last = removal.documents[-1].number if removal.documents else -1
    if last >= documents:
        raise DatasetError(f"there is no document {last:,}: the dataset has {documents:,}, counted from 0")
