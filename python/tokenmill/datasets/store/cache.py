"""A local cache of the shards of a remote dataset: each file is fetched once, the next ones ahead of need."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tokenmill.base.durable import publish_bytes
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN, load_manifest
from tokenmill.datasets.ledger.receipt import RECEIPTS, SHARDS
from tokenmill.datasets.store.cache_room import make_room, mark_used
from tokenmill.datasets.store.remote import cache_directory
from tokenmill.datasets.store.store import ObjectStore
from tokenmill.datasets.store.tokenizer_copy import fetch_copy
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry

# Shards fetched beyond the one that is read, and how many at a time.
AHEAD = 2


class ShardCache:
    """Files of a remote dataset by their names, which have the content's hash in them and never change."""

    def __init__(self, store: ObjectStore, root: Path, *, ahead: int = AHEAD) -> None:
        self.store = store
        self.root = root
        self.ahead = ahead
        # Whether all files of the dataset are wanted at once, so that none may make room for another.
        self.whole = False
        self._lock = threading.Lock()
        self._coming: dict[str, Future[None]] = {}
        self._pool: ThreadPoolExecutor | None = None

    # Another process fetches for itself; a file that is there already is not fetched again.
    def __reduce__(self) -> tuple[type[ShardCache], tuple[ObjectStore, Path]]:
        return ShardCache, (self.store, self.root)

    def path(self, entry: FileEntry) -> Path:
        """A local file with the whole content of `entry`, fetched if need be."""
        path = self.root / entry.path
        self._fetch(entry).result()
        with self._lock:
            self._coming.pop(entry.path, None)
        mark_used(path)
        return path

    def expect(self, shards: tuple[ShardEntry, ...], role: str) -> None:
        """Begin to fetch that file of the next shards."""
        for shard in shards[: self.ahead]:
            for entry in shard.files:
                if entry.role == role:
                    self._fetch(entry)

    def _fetch(self, entry: FileEntry) -> Future[None]:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(max(self.ahead, 1), thread_name_prefix="tokenmill-fetch")
            if entry.path not in self._coming:
                self._coming[entry.path] = self._pool.submit(self._download, entry)
            return self._coming[entry.path]

    def _download(self, entry: FileEntry) -> None:
        path = self.root / entry.path
        if entry.find_size(self.root) == entry.bytes:
            return
        with self._lock:
            wanted = {self.root / name for name in self._coming}
        if self.whole:
            wanted |= set((self.root / SHARDS).glob("*"))
        make_room(self.root.parent, entry.bytes, wanted)
        self.store.fetch(entry.path, path)
        size = entry.find_size(self.root)
        if size != entry.bytes:
            path.unlink(missing_ok=True)
            raise DatasetError(
                f"{self.store.address}/{entry.path} has {size} bytes, the manifest promises {entry.bytes}: "
                "the object is damaged. Copy the dataset again, or run the prepare command again"
            )


def make_local_copy(address: str) -> Path:
    """The directory of the cache, after every file of the dataset has been brought there."""
    manifest, cache = open_cached(address)
    cache.whole = True
    for name in [PLAN, *cache.store.list_sizes(RECEIPTS)]:
        data = cache.store.read(name)
        if data is not None:
            publish_bytes(cache.root / name, data)
    fetch_copy(address)
    for index, shard in enumerate(manifest.shards):
        cache.expect(manifest.shards[index + 1 :], "tokens")
        for entry in shard.files:
            cache.path(entry)
    return cache.root


def open_cached(address: str) -> tuple[Manifest, ShardCache]:
    """The manifest of a remote dataset, and a cache for its shards."""
    store = ObjectStore(address.rstrip("/"))
    root = cache_directory(store.address, "datasets")
    data = store.read(MANIFEST)
    if data is None:
        raise DatasetError(
            f"{address}: there is no {MANIFEST}, so the dataset is not finished; "
            "run the prepare command again to finish it"
        )
    publish_bytes(root / MANIFEST, data)
    return load_manifest(root), ShardCache(store, root)
