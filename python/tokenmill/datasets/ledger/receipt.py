"""A receipt: the small JSON file that says a shard is done. Nothing else says so."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import publish_bytes
from tokenmill.datasets.ledger.account import Account
from tokenmill.datasets.ledger.record import Record, check_seal, check_version, encode_record, parse_record
from tokenmill.errors import DatasetError
from tokenmill.sources.model import Reject

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RECEIPT_VERSION = 1
RECEIPTS = "receipts"
SHARDS = "shards"


@dataclass(frozen=True, slots=True)
class FileEntry(Record):
    """One file of a shard: what it holds, where it is below the dataset's directory, its size and hash."""

    role: str
    path: str
    bytes: int
    sha256: str
    items: int | None = None
    """How many items it holds, where the format's index of all files wants to know."""

    def to_json(self) -> dict[str, Any]:
        """A plain object; `items` only where there are."""
        return {key: value for key, value in Record.to_json(self).items() if value is not None}

    def find_size(self, root: Path) -> int | None:
        """The size of the file as it is below `root`; None if it is not there."""
        try:
            return os.stat(os.path.join(root, self.path)).st_size  # noqa: PTH116, PTH118 - pathlib is 10x slower
        except FileNotFoundError:
            return None

    def check_size(self, root: Path) -> None:
        """Raise `DatasetError` unless the file is there with its size."""
        found = self.find_size(root)
        if found is None:
            raise DatasetError(
                f"{root / self.path} is missing: the manifest lists it with {self.bytes} bytes. "
                "Copy the dataset again, or run the prepare command again"
            )
        if found != self.bytes:
            raise DatasetError(
                f"{root / self.path} has {found} bytes, the manifest promises {self.bytes}: the shard is "
                "damaged or half copied. Copy it again, or run the prepare command again"
            )

    def check_path(self) -> None:
        """Raise `DatasetError` for a path that leads out of the dataset's directory."""
        path = self.path  # plain text: pathlib took half of the time to open ten thousand shards
        if not path or path[0] == "/" or "\\" in path or "\0" in path or ".." in path.split("/"):
            raise DatasetError(f"the path {self.path!r} does not stay in the dataset's directory")


@dataclass(frozen=True, slots=True)
class ShardEntry(Record):
    """What a reader needs of one shard."""

    name: str
    unit: str
    documents: int
    tokens: int
    rows: int
    files: tuple[FileEntry, ...]

    def file(self, role: str) -> FileEntry:
        """The file of that role; raises `DatasetError` naming those that are there."""
        for entry in self.files:
            if entry.role == role:
                return entry
        roles = ", ".join(entry.role for entry in self.files)
        raise DatasetError(f"shard {self.name} has no file of role {role!r}, only {roles}")


@dataclass(frozen=True, slots=True)
class Receipt(Record):
    """A finished unit: its shard, its account, its first bad records, and the records of each part."""

    ordinal: int
    shard: ShardEntry
    account: Account
    rejects: tuple[Reject, ...] = ()
    records: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object of docs/format.md: the version first, the shard's own keys among the others."""
        value = Record.to_json(self)
        head: dict[str, Any] = {"receipt_version": RECEIPT_VERSION, "ordinal": value.pop("ordinal")}
        return {**head, **value.pop("shard"), **value}

    @classmethod
    def reshape(cls, value: Any) -> Any:
        """The shard's keys taken together again."""
        return value | {"shard": value} if isinstance(value, dict) else value


_KEYS = Receipt(0, ShardEntry("", "", 0, 0, 0, ()), Account()).to_json().keys()


def parse_receipt(data: bytes, where: str) -> Receipt:
    """The receipt in a file; raises `DatasetError` for one that is damaged, or of a newer version."""
    value = parse_record(data, where)
    check_version(value, "receipt_version", RECEIPT_VERSION, where)
    check_seal(value, data, where, _KEYS)
    receipt = Receipt.from_json(value, where)
    for entry in receipt.shard.files:
        entry.check_path()
    return receipt


def receipt_name(shard: str) -> str:
    """The file of a shard's receipt in its dataset: `"00000-9f…"` -> `receipts/00000-9f….json`."""
    return f"{RECEIPTS}/{shard}.json"


def receipt_path(root: Path, shard: str) -> Path:
    """Where the receipt of a shard is: `(DIR, "00000-9f…")` -> `DIR/receipts/00000-9f….json`."""
    return root / receipt_name(shard)


def save_receipt(root: Path, receipt: Receipt) -> None:
    """Publish a receipt; call it only after the shard's files have been published."""
    publish_bytes(receipt_path(root, receipt.shard.name), encode_record(receipt.to_json()))


def load_receipt(root: Path, shard: str, unit: str, sizes: Mapping[str, int] | None = None) -> Receipt | None:
    """The receipt of a shard if it is done: there, whole, of this unit, and every file there with its size.

    A damaged receipt says nothing, so its unit is done again. `sizes` are those of the files of a remote
    dataset, whose shards are not below `root`.
    """
    path = receipt_path(root, shard)
    try:
        receipt = parse_receipt(path.read_bytes(), str(path))
    except (FileNotFoundError, DatasetError):
        return None
    files = receipt.shard.files
    found = [entry.find_size(root) if sizes is None else sizes.get(entry.path) for entry in files]
    whole = found == [entry.bytes for entry in files]
    return receipt if whole and receipt.shard.unit == unit else None
