"""A local cache of the shards of remote datasets; each file is fetched once, the next ones ahead of need.

The cache may hold `TOKENMILL_CACHE_BYTES` (such as `200GB`); by default it leaves a tenth of the disk free.
The least recently used files are removed first, mapped ones too: their pages stay until they are unmapped.
"""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.disk import find_existing
from tokenmill.base.durable import publish_bytes
from tokenmill.base.words import parse_size
from tokenmill.datasets.ledger.manifest import MANIFEST, load_manifest
from tokenmill.datasets.ledger.receipt import SHARDS
from tokenmill.datasets.remote import Remote, fetch_copy
from tokenmill.datasets.store import ObjectStore, cache_directory
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.sources.stores import is_remote

if TYPE_CHECKING:
    from collections.abc import Collection
    from concurrent.futures import Future

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry

# Shards fetched beyond the one that is read, and how many at a time.
AHEAD = 2
CACHE_BYTES = "TOKENMILL_CACHE_BYTES"


class ShardCache:
    """Files of a remote dataset by their names, which contain the content's hash and never change."""

    def __init__(self, store: ObjectStore, root: Path, *, ahead: int = AHEAD) -> None:
        self.store = store
        self.root = root
        self.ahead = ahead
        # True while all files of the dataset are needed at once: none is then removed for another.
        self.whole = False
        self._lock = threading.Lock()
        self._pending: dict[str, Future[None]] = {}
        self._pool: ThreadPoolExecutor | None = None

    # Another process has its own threads; it finds the files that are already there.
    def __reduce__(self) -> tuple[type[ShardCache], tuple[ObjectStore, Path]]:
        return ShardCache, (self.store, self.root)

    def path(self, entry: FileEntry) -> Path:
        """Return the local path of a file; fetch the file first if it is missing."""
        path = self.root / entry.path
        self._fetch(entry).result()
        with self._lock:
            self._pending.pop(entry.path, None)
        with suppress(OSError):
            os.utime(path)  # the time of last use
        return path

    def prefetch(self, shards: tuple[ShardEntry, ...], role: str) -> None:
        """Start to fetch the file of this role of the next shards."""
        for shard in shards[: self.ahead]:
            for entry in shard.files:
                if entry.role == role:
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
    """Return the directory of a dataset; fetch every file of a remote one into its cache directory first."""
    if not is_remote(address):
        return Path(address)
    address = str(address)
    manifest, cache = open_cached(address)
    cache.whole = True
    Remote(address).pull(cache.root)
    fetch_copy(address)
    for index, shard in enumerate(manifest.shards):
        cache.prefetch(manifest.shards[index + 1 :], "tokens")
        for entry in shard.files:
            cache.path(entry)
    return cache.root


def make_room(datasets: Path, needed: int, keep: Collection[Path] = ()) -> int:
    """Remove shards of any dataset below `datasets` until `needed` more bytes fit; return the bytes removed.

    Files in `keep` stay even above the limit: the job that needs them now would only fetch them again.
    """
    files = []
    for path in datasets.glob(f"*/{SHARDS}/*"):
        with suppress(FileNotFoundError):
            status = path.stat()
            files.append((status.st_mtime_ns, status.st_size, path))
    held = sum(size for _, size, _ in files)
    excess = held + needed - _find_limit(datasets, held)
    removed = 0
    for _, size, path in sorted(files):
        if removed >= excess:
            break
        if path not in keep:
            with suppress(FileNotFoundError):
                path.unlink()
                removed += size
    return removed


def _find_limit(datasets: Path, held: int) -> int:
    given = os.environ.get(CACHE_BYTES)
    if not given:
        disk = shutil.disk_usage(find_existing(datasets))
        return held + disk.free - disk.total // 10
    try:
        return parse_size(given)
    except ValueError:
        raise ConfigError(f"{CACHE_BYTES}: expected a size such as 200GB, found {given!r}") from None
