"""The copy of its tokenizer that a dataset keeps, so that ids are text wherever it is moved.

It is written with the plan, before any unit. The manifest's fingerprint says whether it is the right one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.durable import publish_bytes
from tokenmill.datasets.store.remote import cache_directory
from tokenmill.datasets.store.store import ObjectStore
from tokenmill.sources.stores import is_remote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.datasets.store.remote import Remote

COPY = "tokenizer-copy"


def save_copy(root: Path, files: Mapping[str, bytes], remote: Remote | None = None) -> None:
    """Keep these files below `root`, and in the store; what is there already is not written again."""
    for name, data in files.items():
        path = root / COPY / name
        if not path.is_file() or path.read_bytes() != data:
            publish_bytes(path, data)
    if remote is None or not files:
        return
    there = remote.store.list_sizes(COPY)
    for name, data in files.items():
        if there.get(f"{COPY}/{name}") != len(data):
            remote.store.replace(f"{COPY}/{name}", data)


def pass_on_copy(source: Path, target: Path) -> None:
    """Give a dataset that is made of another one the same copy, if there is one."""
    place = source / COPY
    files = {path.relative_to(place).as_posix(): path for path in sorted(place.rglob("*")) if path.is_file()}
    kept = {name: path.read_bytes() for name, path in files.items() if not name.startswith(".")}
    save_copy(target, kept)


def fetch_copy(address: str | Path) -> Path | None:
    """The directory of the copy, fetched if the dataset is in an object store; None if there is none."""
    if not is_remote(address):
        place = Path(address) / COPY
        return place if place.is_dir() else None
    store = ObjectStore(str(address).rstrip("/"))
    root, names = cache_directory(store.address, "datasets"), list(store.list_sizes(COPY))
    for name in names:
        data = store.read(name)
        # The names are of whoever wrote there.
        if data is not None and ".." not in Path(name).parts:
            publish_bytes(root / name, data)
    return root / COPY if names else None
