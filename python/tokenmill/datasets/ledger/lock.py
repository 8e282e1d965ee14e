"""A lock: everything that a dataset was made from and became, in one file, to make it again or to compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import publish_bytes
from tokenmill.datasets.ledger.manifest import content_hash
from tokenmill.datasets.ledger.plan import Plan
from tokenmill.datasets.ledger.receipt import ShardEntry
from tokenmill.datasets.ledger.record import Record, check_seal, check_version, encode_record, parse_record
from tokenmill.datasets.ledger.removal import Removal
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

LOCK = "tokenmill.lock"
LOCK_VERSION = 1
_KIND = "tokenmill-lock"


@dataclass(frozen=True, slots=True)
class LockedInput(Record):
    """One input: where it was, its size, and its hash, or the version that its store or hub gives it."""

    url: str
    size: int
    identity: str
    sha256: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class SourceCount(Record):
    """What came from one input: documents and their tokens."""

    url: str
    documents: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Lock(Record):
    """The plan with its settings, the inputs, the shards, the versions, and what was removed."""

    plan: Plan
    inputs: tuple[LockedInput, ...]
    sources: tuple[SourceCount, ...]
    shards: tuple[ShardEntry, ...]
    versions: dict[str, Any]
    removal: Removal | None = None

    @property
    def content_hash(self) -> str:
        """The hash of the dataset."""
        return content_hash(self.shards)

    def to_json(self) -> dict[str, Any]:
        """The object of docs/format.md, version first."""
        value = Record.to_json(self)
        plan = self.plan.to_json()
        removal = None if self.removal is None else self.removal.to_json()
        head = {"lock_version": LOCK_VERSION, "kind": _KIND, "content_hash": self.content_hash}
        return head | value | {"plan": plan, "removal": removal}


def save_lock(path: Path, lock: Lock) -> None:
    """Write a lock, whole or not at all."""
    publish_bytes(path, encode_record(lock.to_json()))


def load_lock(path: Path) -> Lock:
    """The lock in a file; raises `DatasetError` for one that is damaged, of a newer version, or none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DatasetError(
            f"there is no lock at {path}; `tokenmill dataset lock DATASET` writes one"
        ) from None
    value = parse_record(data, str(path))
    if value.get("kind") != _KIND:
        raise DatasetError(
            f"{path} is not the lock of a dataset; `tokenmill dataset lock DATASET` writes one"
        )
    check_version(value, "lock_version", LOCK_VERSION, str(path))
    check_seal(value, data, str(path), ())
    return Lock.from_json(value, str(path))
