"""The output of a job in an object store, and the copy of its tokenizer that a dataset keeps.

A local work directory holds the small files (plan, receipts, manifest), as if the dataset were local. A shard
is uploaded under a name that contains its content's hash, then its receipt is created unless there is one. A
second driver that did the same unit finds the receipt and agrees with it.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.durable import publish_bytes
from tokenmill.base.records import encode_record
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN
from tokenmill.datasets.ledger.plan import parse_plan
from tokenmill.datasets.ledger.receipt import RECEIPTS, parse_receipt, receipt_name
from tokenmill.datasets.store import ObjectStore, cache_directory
from tokenmill.errors import ResumeError, StoreError
from tokenmill.sources.stores import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import Receipt, ShardEntry

# The directory of a dataset with the files of its tokenizer, so that ids can be decoded wherever it is moved.
COPY = "tokenizer-copy"


class Remote(ObjectStore):
    """The remote side of a job's output; any process can publish units."""

    @property
    def work(self) -> Path:
        """The local work directory."""
        return cache_directory(self.address, "work")

    def pull(self, root: Path) -> None:
        """Update the plan, the manifest and the receipts below `root` from the store."""
        for name in (PLAN, MANIFEST):
            self._pull(root, name)
        self.pull_receipts(root)

    def pull_receipts(self, root: Path) -> None:
        """Fetch receipts that other processes have created, and remove those that are gone."""
        known = self.list_sizes(RECEIPTS)
        for name in known:
            if not (root / name).exists():
                self._pull(root, name)
        for path in (root / RECEIPTS).glob("*.json"):
            if f"{RECEIPTS}/{path.name}" not in known:
                path.unlink()

    def _pull(self, root: Path, name: str) -> None:
        data = self.read(name)
        if data is None:
            (root / name).unlink(missing_ok=True)
        else:
            publish_bytes(root / name, data)

    def publish(self, root: Path, receipt: Receipt) -> Receipt:
        """Upload a shard, create its receipt and delete the local files; return the receipt in the store."""
        named = replace(receipt, shard=_name_by_content(receipt.shard))
        for local, entry in zip(receipt.shard.files, named.shard.files, strict=True):
            self.upload(entry.path, root / local.path)
        valid = self._create_receipt(named)
        for local in receipt.shard.files:
            (root / local.path).unlink(missing_ok=True)
        return valid

    def _create_receipt(self, receipt: Receipt) -> Receipt:
        name = receipt_name(receipt.shard.name)
        if self.create(name, encode_record(receipt.to_json())):
            return receipt
        existing = self.read(name)
        other = parse_receipt(existing, f"{self.address}/{name}") if existing else None
        if other is None or other.shard != receipt.shard:
            raise StoreError(
                f"{self.address}/{name} exists and describes different bytes from this run's: another "
                "version of tokenmill is writing there. Use one version, or another output"
            )
        return other

    def publish_plan(self, root: Path) -> None:
        """Upload the plan; raise `ResumeError` if another driver has uploaded a different one."""
        mine = (root / PLAN).read_bytes()
        there = self.read(PLAN)
        if there == mine or (there is None and self.create(PLAN, mine)):
            return
        there = there if there is not None else self.read(PLAN)
        if there is not None and not _extends(mine, there):
            raise ResumeError(
                f"{self.address}: another driver started a different job there at the same time; use another "
                "output, or the same settings and inputs"
            )
        self.replace(PLAN, mine)

    def publish_manifest(self, root: Path, manifest: Manifest) -> None:
        """Upload the extra files of the format, then the manifest, which completes the dataset."""
        for name in (*find_format(manifest.format).beside, MANIFEST):
            self.replace(name, (root / name).read_bytes())

    def clear(self, names: Iterable[str]) -> None:
        """Delete the files and directories of an earlier job."""
        for name in names:
            self.delete([*self.list_sizes(name), name] if "." not in name else [name])


def _extends(mine: bytes, there: bytes) -> bool:
    """Return True if a plan begins with all units of another one."""
    old = parse_plan(there, "the plan in the store").units
    return parse_plan(mine, "the plan of this run").units[: len(old)] == old


def _name_by_content(shard: ShardEntry) -> ShardEntry:
    """Return the shard with a hash of its files in their names; the files of a shard keep one stem."""
    joined = "".join(entry.sha256 for entry in shard.files)
    mark = hashlib.sha256(joined.encode("ascii")).hexdigest()[:16]
    files = tuple(
        replace(entry, path=entry.path.replace(shard.name, f"{shard.name}-{mark}", 1))
        for entry in shard.files
    )
    return replace(shard, files=files)


def save_copy(root: Path, files: Mapping[str, bytes], remote: Remote | None = None) -> None:
    """Save the files of a tokenizer below `root` and in the store, except those already there."""
    for name, data in files.items():
        path = root / COPY / name
        if not path.is_file() or path.read_bytes() != data:
            publish_bytes(path, data)
    if remote is None or not files:
        return
    there = remote.list_sizes(COPY)
    for name, data in files.items():
        if there.get(f"{COPY}/{name}") != len(data):
            remote.replace(f"{COPY}/{name}", data)


def pass_on_copy(source: Path, target: Path) -> None:
    """Save the tokenizer copy of one dataset, if it has one, in another."""
    place = source / COPY
    files = {path.relative_to(place).as_posix(): path for path in sorted(place.rglob("*")) if path.is_file()}
    save_copy(target, {name: path.read_bytes() for name, path in files.items() if not name.startswith(".")})


def fetch_copy(address: str | Path) -> Path | None:
    """Return the local directory of a dataset's tokenizer copy, fetched if remote, or None if it has none."""
    if not is_remote(address):
        place = Path(address) / COPY
        return place if place.is_dir() else None
    store = ObjectStore(str(address))
    root, names = cache_directory(store.address, "datasets"), list(store.list_sizes(COPY))
    for name in names:
        data = store.read(name)
        # Anyone who can write to the store chooses the names.
        if data is not None and ".." not in Path(name).parts:
            publish_bytes(root / name, data)
    return root / COPY if names else None
