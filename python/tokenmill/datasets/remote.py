"""Datasets in an object store: the output of a job, a local cache of shards, and the tokenizer copy.

A local work directory holds the small files (plan, receipts, manifest), as if the dataset were local. A shard
is uploaded under a name that contains the hash of its content, then its receipt is created if it does not
exist. A second driver that processed the same unit uses the existing receipt.

Reading fetches each shard once and prefetches the next ones. The cache may hold `TOKENMILL_CACHE_BYTES` (such
as `200GB`); by default it leaves a tenth of the disk free. The least recently used files are removed first,
mapped ones too: their pages stay until they are unmapped.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tokenmill.base.durable import find_existing, publish_bytes
from tokenmill.base.records import encode_record
from tokenmill.base.words import parse_size
from tokenmill.datasets.documents import LOSS_MASK
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN, Manifest, load_manifest
from tokenmill.datasets.ledger.plan import parse_plan
from tokenmill.datasets.ledger.receipt import (
    RECEIPTS,
    SHARDS,
    FileEntry,
    Receipt,
    ShardEntry,
    parse_receipt,
    receipt_name,
)
from tokenmill.datasets.ledger.selection import REMOVED
from tokenmill.datasets.store import ObjectStore, cache_directory
from tokenmill.errors import ConfigError, DatasetError, ResumeError, StoreError
from tokenmill.sources.stores import is_remote

# The directory of a dataset with the files of its tokenizer, so that ids can be decoded wherever it is moved.
COPY = "tokenizer-copy"


class Remote(ObjectStore):
    """The remote output of a job. Any process can publish units."""

    @property
    def work(self) -> Path:
        """The local work directory."""
        return cache_directory(self.address, "work")

    def pull(self, root: Path) -> None:
        """Update the plan, the manifest, `removed.json` and the receipts below `root` from the store."""
        for name in (PLAN, MANIFEST, REMOVED):
            self._pull(root, name)
        self.pull_receipts(root)

    def pull_receipts(self, root: Path) -> None:
        """Fetch receipts created by other processes, and remove those that were deleted."""
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
        """Upload a shard, create its receipt and delete the local files. Return the receipt in the store."""
        shard, name = receipt.shard, receipt_name(receipt.shard.name)
        valid = add_hashes(receipt)
        for entry, named in zip(shard.files, valid.shard.files, strict=True):
            self.upload(named.path, root / entry.path)
        if not self.create(name, encode_record(valid.to_json())):
            existing = self.read(name)
            other = parse_receipt(existing, f"{self.address}/{name}") if existing else None
            if other is None or other.shard != valid.shard:
                raise StoreError(
                    f"{self.address}/{name} exists and describes different bytes from this run's: another "
                    "version of tokenmill is writing there. Use one version, or another output"
                )
            valid = other
        for entry in shard.files:
            (root / entry.path).unlink(missing_ok=True)
        return valid

    def publish_plan(self, root: Path) -> None:
        """Upload the plan. Raise `ResumeError` if another driver has uploaded a different one."""
        mine = (root / PLAN).read_bytes()
        if self.create(PLAN, mine):
            return
        there = self.read(PLAN) or mine
        old = parse_plan(there, "the plan in the store").units
        if parse_plan(mine, "the plan of this run").units[: len(old)] != old:
            raise ResumeError(
                f"{self.address}: another driver started a different job there at the same time; use another "
                "output, or the same settings and inputs"
            )
        if there != mine:
            self.replace(PLAN, mine)

    def publish_manifest(self, root: Path, manifest: Manifest) -> None:
        """Upload the extra files of the format, then the manifest, which completes the dataset."""
        for name in (*find_format(manifest.format).extra_files, MANIFEST):
            self.replace(name, (root / name).read_bytes())

    def clear(self, names: Iterable[str]) -> None:
        """Delete the files and directories of an earlier job."""
        for name in names:
            self.delete([*self.list_sizes(name), name] if "." not in name else [name])


def add_hashes(receipt: Receipt) -> Receipt:
    """Return a receipt with the file names of a store, which contain the hash of the shard."""
    joined = "".join(entry.sha256 for entry in receipt.shard.files)
    mark = hashlib.sha256(joined.encode("ascii")).hexdigest()[:16]
    return rename_files(receipt, f"{receipt.shard.name}-{mark}")


def rename_files(receipt: Receipt, name: str) -> Receipt:
    """Return a receipt whose files have this name before the suffix."""
    old = receipt.shard.files
    files = tuple(replace(each, path=f"{SHARDS}/{name}.{each.path.partition('.')[2]}") for each in old)
    return replace(receipt, shard=replace(receipt.shard, files=files))


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


def fetch_copy(address: str | Path) -> Path | None:
    """Return the local directory of a dataset's tokenizer copy, fetched if remote, or None if it has none."""
    if not is_remote(address):
        place = Path(address) / COPY
        return place if place.is_dir() else None
    store = ObjectStore(str(address))
    root, names = cache_directory(store.address, "datasets"), list(store.list_sizes(COPY))
    for name in names:
        data = store.read(name)
        # The names are untrusted: anyone with write access to the store can choose them.
        if data is not None and ".." not in Path(name).parts:
            publish_bytes(root / name, data)
    return root / COPY if names else None


# Shards to prefetch, and the number of parallel downloads.
AHEAD = 2
# The roles of the files that rows are read from.
ROW_FILES = frozenset({"tokens", "offsets", LOSS_MASK})
CACHE_BYTES = "TOKENMILL_CACHE_BYTES"


class ShardCache:
    """A local cache of the files of a remote dataset. Names contain the content's hash."""

    def __init__(self, store: ObjectStore, root: Path, *, ahead: int = AHEAD) -> None:
        self.store = store
        self.root = root
        self.ahead = ahead
        # True while all files of the dataset are needed at once, so that none is evicted.
        self.whole = False
        self._lock = threading.Lock()
        self._pending: dict[str, Future[None]] = {}
        self._pool: ThreadPoolExecutor | None = None

    # A copy in another process starts its own threads and shares the files.
    def __reduce__(self) -> tuple[type[ShardCache], tuple[ObjectStore, Path]]:
        return ShardCache, (self.store, self.root)

    def path(self, entry: FileEntry) -> Path:
        """Return the local path of a file. Fetch the file first if it is missing."""
        path = self.root / entry.path
        self._fetch(entry).result()
        with self._lock:
            self._pending.pop(entry.path, None)
        with suppress(OSError):
            os.utime(path)  # the time of last use
        return path

    def prefetch(self, shards: Sequence[ShardEntry], roles: Collection[str] = ROW_FILES) -> None:
        """Start to fetch the files of these roles, by default all that rows need."""
        for entry in (entry for shard in shards for entry in shard.files):
            if entry.role in roles:
                self._fetch(entry)

    def _fetch(self, entry: FileEntry) -> Future[None]:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(max(self.ahead, 1), thread_name_prefix="tokenmill-fetch")
            if entry.path not in self._pending:
                self._pending[entry.path] = self._pool.submit(self._download, entry)
            return self._pending[entry.path]

    def _download(self, entry: FileEntry) -> None:
        path = self.root / entry.path
        if entry.find_size(self.root) == entry.bytes:
            return
        with self._lock:
            needed = {self.root / name for name in self._pending}
        if self.whole:
            needed |= set((self.root / SHARDS).glob("*"))
        make_room(self.root.parent, entry.bytes, needed)
        self.store.fetch(entry.path, path)
        size = entry.find_size(self.root)
        if size != entry.bytes:
            path.unlink(missing_ok=True)
            raise DatasetError(
                f"{self.store.address}/{entry.path} has {size} bytes, the manifest promises {entry.bytes}: "
                "the object is damaged. Copy the dataset again, or run the prepare command again"
            )


def open_cached(address: str) -> tuple[Manifest, ShardCache]:
    """Return the manifest of a remote dataset and a cache for its shards."""
    store = ObjectStore(address)
    root = cache_directory(store.address, "datasets")
    data = store.read(MANIFEST)
    if data is None:
        raise DatasetError(
            f"{address}: there is no {MANIFEST}, so the dataset is not finished; "
            "run the prepare command again to finish it"
        )
    publish_bytes(root / MANIFEST, data)
    return load_manifest(root), ShardCache(store, root)


def read_manifest(address: str | Path) -> Manifest:
    """Return the manifest of the dataset at a path or URL."""
    return open_cached(str(address))[0] if is_remote(address) else load_manifest(Path(address))


def make_local_copy(address: str | Path) -> Path:
    """Return the directory of a dataset. Fetch every file of a remote one into its cache directory first."""
    if not is_remote(address):
        return Path(address)
    address = str(address)
    manifest, cache = open_cached(address)
    cache.whole = True
    Remote(address).pull(cache.root)
    fetch_copy(address)
    for index, shard in enumerate(manifest.shards):
        cache.prefetch(manifest.shards[index + 1 :][:AHEAD], {"tokens"})
        for entry in shard.files:
            cache.path(entry)
    return cache.root


def make_room(datasets: Path, needed: int, keep: Collection[Path] = ()) -> int:
    """Remove shards of any dataset below `datasets` until `needed` more bytes fit. Return the bytes removed.

    Files in `keep` stay even above the limit, because the running job would fetch them again.
    """
    files = []
    for path in datasets.glob(f"*/{SHARDS}/*"):
        with suppress(FileNotFoundError):
            status = path.stat()
            files.append((status.st_mtime_ns, status.st_size, path))
    held = sum(size for _, size, _ in files)
    disk = shutil.disk_usage(find_existing(datasets))
    limit = held + disk.free - disk.total // 10
    if given := os.environ.get(CACHE_BYTES):
        try:
            limit = parse_size(given)
        except ValueError:
            raise ConfigError(f"{CACHE_BYTES}: expected a size such as 200GB, found {given!r}") from None
    excess = held + needed - limit
    removed = 0
    for _, size, path in sorted(files):
        if removed >= excess:
            break
        if path not in keep:
            with suppress(FileNotFoundError):
                path.unlink()
                removed += size
    return removed
