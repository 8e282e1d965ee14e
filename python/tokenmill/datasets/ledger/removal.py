"""What was taken out of a dataset: a record beside the manifest, and the list by which a user asks for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import publish_bytes
from tokenmill.datasets.ledger.record import Record, check_seal, check_version, encode_record, parse_record
from tokenmill.errors import ConfigError, DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator

REMOVED = "removed.json"
REMOVED_VERSION = 1
# What the account calls documents that were taken out without a reason.
REASON = "removed"
_KEYS = ("removed_version", "content_hash", "documents")
_WAYS = ("document", "record", "id", "contains")


@dataclass(frozen=True, slots=True)
class RemovedDocument(Record):
    """One document: its number in the dataset as it was, and why it went."""

    number: int
    reason: str = REASON


@dataclass(frozen=True, slots=True)
class Removal(Record):
    """All that was taken out of the dataset with that content hash, by rising number."""

    content_hash: str
    documents: tuple[RemovedDocument, ...]

    def to_json(self) -> dict[str, Any]:
        """The object of docs/format.md, version first."""
        return {"removed_version": REMOVED_VERSION} | Record.to_json(self)


def save_removal(root: Path, removal: Removal) -> None:
    """Publish it beside the manifest to come."""
    publish_bytes(root / REMOVED, encode_record(removal.to_json()))


def load_removal(root: Path) -> Removal | None:
    """What was taken out of a dataset; None where nothing was."""
    path = root / REMOVED
    if not path.is_file():
        return None
    return parse_removal(path.read_bytes(), str(path))


def parse_removal(data: bytes, where: str) -> Removal:
    """The record in a file; raises `DatasetError` for one that is damaged, or of a newer version."""
    value = parse_record(data, where)
    check_version(value, "removed_version", REMOVED_VERSION, where)
    check_seal(value, data, where, _KEYS)
    return Removal.from_json(value, where)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One line of a list of documents: one of a number, `FILE:ROW`, an id or a text, and a reason."""

    line: int
    way: str
    value: Any
    reason: str


def read_list(path: str | Path) -> Iterator[Wanted]:
    """The lines of a file: `FILE:ROW`, or a JSON object with one of the ways to name a document."""
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
    if "file" in item and "row" in item:
        item = {"record": f"{item['file']}:{item['row']}"} | {
            key: value for key, value in item.items() if key not in ("file", "row")
        }
    ways = [key for key in item if key in _WAYS]
    unknown = [key for key in item if key not in (*_WAYS, "reason")]
    if len(ways) != 1 or unknown:
        found = unknown[0] if unknown else ", ".join(ways) or "nothing"
        raise ConfigError(
            f"{where}: found {found}; name a document by one of document, id, contains, or file and row, "
            "with a reason if you like"
        )
    value, kind = item[ways[0]], int if ways[0] == "document" else str
    reason = item.get("reason", REASON)
    if type(value) is not kind or not isinstance(reason, str) or not reason:
        expected = "a whole number" if kind is int else "text"
        raise ConfigError(
            f"{where}: {ways[0]} is {value!r} and reason is {reason!r}; expected {expected} and some text"
        )
    return Wanted(number, ways[0], value, reason)


def check_numbers(removal: Removal, documents: int) -> None:
    """Raise `DatasetError` unless every number is of a document that is there."""
    last = removal.documents[-1].number if removal.documents else -1
    if last >= documents:
        raise DatasetError(f"there is no document {last:,}: the dataset has {documents:,}, counted from 0")
