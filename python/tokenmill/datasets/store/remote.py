"""A dataset in an object store: written unit by unit from a local work directory, read through a cache.

The work directory has the small files (plan, receipts, manifest) as if the dataset were local, so the
rest of the pipeline need not know. A shard is uploaded under a name that has its content's hash in it,
then its receipt is created on condition that there is none; only then is it done. A second driver that
did the same unit finds the receipt and agrees with it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tokenmill.base.durable import publish_bytes
from tokenmill.base.hardware.cache import cache_root
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN
from tokenmill.datasets.ledger.plan import parse_plan
from tokenmill.datasets.ledger.receipt import RECEIPTS, parse_receipt, receipt_name
from tokenmill.datasets.ledger.record import encode_record
from tokenmill.datasets.shards.format import find_format
from tokenmill.datasets.store.store import ObjectStore
from tokenmill.errors import ResumeError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import Receipt, ShardEntry


def cache_directory(address: str, purpose: str) -> Path:
    """Where this machine keeps things of a remote dataset: below `TOKENMILL_CACHE` or the user's cache."""
    return cache_root() / purpose / hashlib.sha256(address.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Remote:
    """The remote side of a job's output. It pickles, so that units can be published from anywhere."""

    store: ObjectStore

    @classmethod
    def at(cls, address: str) -> Remote:
        """The dataset at a URL."""
        return cls(ObjectStore(address.rstrip("/")))

    @property
    def address(self) -> str:
        """The URL."""
        return self.store.address

    @property
    def work(self) -> Path:
        """The work directory of this machine for it."""
        return cache_directory(self.address, "work")

    def pull(self, root: Path) -> None:
        """Make the work directory show what the store has: its plan, its receipts, its manifest."""
        for name in (PLAN, MANIFEST):
            self._pull(root, name)
        self.pull_receipts(root)

    def pull_receipts(self, root: Path) -> None:
        """Bring the receipts that others have created since, and forget those that are gone."""
        known = self.store.list_sizes(RECEIPTS)
        for name in known:
            if not (root / name).exists():
                self._pull(root, name)
        for path in (root / RECEIPTS).glob("*.json"):
            if f"{RECEIPTS}/{path.name}" not in known:
                path.unlink()

    def _pull(self, root: Path, name: str) -> None:
        data = self.store.read(name)
        if data is None:
            (root / name).unlink(missing_ok=True)
        else:
            publish_bytes(root / name, data)

    def publish(self, root: Path, receipt: Receipt) -> Receipt:
        """Upload a shard, create its receipt, and delete the local copy; gives the receipt that counts."""
        named = replace(receipt, shard=_name_by_content(receipt.shard))
        for local, entry in zip(receipt.shard.files, named.shard.files, strict=True):
            self.store.upload(entry.path, root / local.path)
        counted = self._create_receipt(named)
        for local in receipt.shard.files:
            (root / local.path).unlink(missing_ok=True)
        return counted

    def _create_receipt(self, receipt: Receipt) -> Receipt:
        name = receipt_name(receipt.shard.name)
        if self.store.create(name, encode_record(receipt.to_json())):
            return receipt
        existing = self.store.read(name)
        other = parse_receipt(existing, f"{self.address}/{name}") if existing else None
        if other is None or other.shard != receipt.shard:
            raise StoreError(
                f"{self.address}/{name} exists and describes different bytes from this run's: another "
                "version of tokenmill is writing there. Use one version, or another output"
            )
        return other

    def publish_plan(self, root: Path) -> None:
        """Upload the plan, unless another driver has uploaded a different one since `pull`."""
        mine = (root / PLAN).read_bytes()
        there = self.store.read(PLAN)
        if there == mine or (there is None and self.store.create(PLAN, mine)):
            return
        there = there if there is not None else self.store.read(PLAN)
        if there is not None and not _extends(mine, there):
            raise ResumeError(
                f"{self.address}: another driver started a different job there at the same time; use another "
                "output, or the same settings and inputs"
            )
        self.store.replace(PLAN, mine)

    def publish_manifest(self, root: Path, manifest: Manifest) -> None:
        """What the format's readers want, then the manifest: the dataset exists from that moment on."""
        for name in (*find_format(manifest.format).beside, MANIFEST):
            self.store.replace(name, (root / name).read_bytes())

    def clear(self, names: Iterable[str]) -> None:
        """Remove what an earlier job left, the manifest first."""
        for name in names:
            self.store.delete([*self.store.list_sizes(name), name] if "." not in name else [name])


def _extends(mine: bytes, there: bytes) -> bool:
    """Whether a plan has all units of another, in place: new inputs only add units."""
    old = parse_plan(there, "the plan in the store").units
    return parse_plan(mine, "the plan of this run").units[: len(old)] == old


def _name_by_content(shard: ShardEntry) -> ShardEntry:
    """The shard with a hash of its files in their names; files that belong together keep one stem."""
    joined = "".join(entry.sha256 for entry in shard.files)
    mark = hashlib.sha256(joined.encode("ascii")).hexdigest()[:16]
    files = tuple(
        replace(entry, path=entry.path.replace(shard.name, f"{shard.name}-{mark}", 1))
        for entry in shard.files
    )
    return replace(shard, files=files)
