"""A receipt: the small JSON file that says a shard is done. Nothing else says so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import publish_json
from tokenmill.base.errors import DatasetError
from tokenmill.datasets.ledger.account import Account

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RECEIPT_VERSION = 1
RECEIPTS = "receipts"
SHARDS = "shards"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a shard: what it holds, where it is below the dataset's directory, its size and hash."""

    role: str
    path: str
    bytes: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        """A plain object, keys as in docs/format.md."""
        return {"role": self.role, "path": self.path, "bytes": self.bytes, "sha256": self.sha256}


@dataclass(frozen=True, slots=True)
class ShardEntry:
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

    def to_json(self) -> dict[str, Any]:
        """A plain object, keys as in docs/format.md."""
        return {
            "name": self.name,
            "unit": self.unit,
            "documents": self.documents,
            "tokens": self.tokens,
            "rows": self.rows,
            "files": [entry.to_json() for entry in self.files],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ShardEntry:
        """The inverse of `to_json`; keys of a receipt beyond the entry are ignored."""
        return cls(
            name=value["name"],
            unit=value["unit"],
            documents=value["documents"],
            tokens=value["tokens"],
            rows=value["rows"],
            files=tuple(FileEntry(e["role"], e["path"], e["bytes"], e["sha256"]) for e in value["files"]),
        )


@dataclass(frozen=True, slots=True)
class RejectPlace:
    """One record that could not be read: why, where (`file:line:byte`), and how it begins."""

    reason: str
    place: str
    sample: str

    def to_json(self) -> dict[str, str]:
        """A plain object."""
        return {"reason": self.reason, "place": self.place, "sample": self.sample}


@dataclass(frozen=True, slots=True)
class Receipt:
    """A finished unit: its shard, its account, its first bad records, and the records of each part."""

    ordinal: int
    shard: ShardEntry
    account: Account
    rejects: tuple[RejectPlace, ...] = ()
    records: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object of docs/format.md, version first."""
        return {
            "receipt_version": RECEIPT_VERSION,
            "ordinal": self.ordinal,
            **self.shard.to_json(),
            "account": self.account.to_json(),
            "rejects": [place.to_json() for place in self.rejects],
            "records": list(self.records),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Receipt:
        """The inverse of `to_json`; raises `DatasetError` for a newer version."""
        version = value.get("receipt_version")
        if version != RECEIPT_VERSION:
            raise DatasetError(
                f"receipt of version {version!r}, this tokenmill reads {RECEIPT_VERSION}: upgrade it"
            )
        return cls(
            ordinal=value["ordinal"],
            shard=ShardEntry.from_json(value),
            account=Account.from_json(value["account"]),
            rejects=tuple(RejectPlace(**place) for place in value["rejects"]),
            records=tuple(value["records"]),
        )


def receipt_path(root: Path, shard: str) -> Path:
    """Where the receipt of a shard is: `(DIR, "00000-9f…")` -> `DIR/receipts/00000-9f….json`."""
    return root / RECEIPTS / f"{shard}.json"


def save_receipt(root: Path, receipt: Receipt) -> None:
    """Publish a receipt; call it only after the shard's files have been published."""
    publish_json(receipt_path(root, receipt.shard.name), receipt.to_json())


def load_receipt(root: Path, shard: str, unit: str, sizes: Mapping[str, int] | None = None) -> Receipt | None:
    """The receipt of a shard if it is done: present, of this unit, and every file there with its size.

    `sizes` are those of the files of a remote dataset, whose shards are not below `root`.
    """
    try:
        value = json.loads(receipt_path(root, shard).read_bytes())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    receipt = Receipt.from_json(value)
    if receipt.shard.unit != unit or not all(_has_size(root, entry, sizes) for entry in receipt.shard.files):
        return None
    return receipt


def _has_size(root: Path, entry: FileEntry, sizes: Mapping[str, int] | None) -> bool:
    if sizes is not None:
        return sizes.get(entry.path) == entry.bytes
    try:
        return (root / entry.path).stat().st_size == entry.bytes
    except FileNotFoundError:
        return False
