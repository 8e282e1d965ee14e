"""Room for the next shard in the local cache: the least recently used files go first.

The cache may hold `TOKENMILL_CACHE_BYTES` (such as `200GB`); left out, whatever leaves a tenth of the disk
free. A file that a reader has mapped can be removed: its pages stay until the reader lets go of them.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from tokenmill.base.hardware.disk import find_existing
from tokenmill.base.sizes import parse_size
from tokenmill.datasets.ledger.receipt import SHARDS
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

VARIABLE = "TOKENMILL_CACHE_BYTES"
# The part of the disk that stays free if nobody says otherwise.
SPARE = 10


def make_room(datasets: Path, needed: int, keep: Collection[Path] = ()) -> int:
    """Remove shards of any dataset below `datasets` until `needed` more bytes fit; returns the bytes removed.

    Files in `keep` stay, even if that is too much: a job that needs them now would only fetch them again.
    """
    files = sorted(_list_files(datasets))
    held = sum(size for _, size, _ in files)
    over = held + needed - _find_limit(datasets, held)
    removed = 0
    for _, size, path in files:
        if removed >= over:
            break
        if path in keep:
            continue
        with suppress(FileNotFoundError):
            path.unlink()
            removed += size
    return removed


def mark_used(path: Path) -> None:
    """Note that a file was used just now."""
    with suppress(OSError):
        os.utime(path)


def _list_files(datasets: Path) -> list[tuple[int, int, Path]]:
    """`(last use, bytes, path)` of every shard file in the cache."""
    found = []
    for path in datasets.glob(f"*/{SHARDS}/*"):
        with suppress(FileNotFoundError):
            status = path.stat()
            found.append((status.st_mtime_ns, status.st_size, path))
    return found


def _find_limit(datasets: Path, held: int) -> int:
    given = os.environ.get(VARIABLE)
    if given:
        try:
            return parse_size(given)
        except ValueError:
            raise ConfigError(f"{VARIABLE}: expected a size such as 200GB, found {given!r}") from None
    disk = shutil.disk_usage(find_existing(datasets))
    return held + disk.free - disk.total // SPARE
