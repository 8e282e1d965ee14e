"""`tokenmill dataset lock`: what a dataset was made from, by hash, so that it can be made again."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.durable import hash_file
from tokenmill.base.versions import find_version
from tokenmill.datasets.ledger.lock import LOCK, Lock, LockedInput, save_lock
from tokenmill.datasets.ledger.manifest import PLAN
from tokenmill.datasets.ledger.removal import REMOVED, parse_removal
from tokenmill.datasets.reader.dataset import open_dataset
from tokenmill.datasets.store.store import read_file
from tokenmill.datasets.trace.records import Records
from tokenmill.datasets.trace.sources import count_sources
from tokenmill.errors import DatasetError
from tokenmill.sources.raw import local_identity

if TYPE_CHECKING:
    from tokenmill.sources.model import InputFile

# What may change the bytes of a dataset, beside our own version.
_PACKAGES = ("numpy", "pyarrow", "tokenizers", "transformers", "tiktoken")


def lock(dataset: str | Path, output: str | Path | None = None) -> Path:
    """Write the lock of a dataset: what it was made from, by hash, so that it can be made again.

    >>> import tokenmill
    >>> _ = Path("page.txt").write_text("a page")
    >>> made = tokenmill.prepare("page.txt", tokenizer, "locked", verbose_level="ERROR", report=False)
    >>> tokenmill.lock("locked").name
    'tokenmill.lock'

    Args:
        dataset: A finished dataset. Every local input of it is read once for its hash.
        output: Where to write the lock; beside the manifest if left out.

    Returns:
        The path of the lock.

    Raises:
        DatasetError: An input is gone or has changed since, or the inputs are not known.
    """
    opened = open_dataset(dataset)
    plan = Records(opened).plan
    if plan is None:
        raise DatasetError(
            f"{opened.address} has no {PLAN} (converted, or copied in part), so its inputs are not known: "
            "lock the dataset that it was made from"
        )
    data = read_file(opened.address, REMOVED)
    removal = None if data is None else parse_removal(data, REMOVED)
    inputs = tuple(_lock_input(file) for file in plan.inputs)
    shards, sources = opened.manifest.shards, count_sources(opened, plan)
    made = Lock(plan, inputs, sources, shards, find_versions(), removal)
    beside = opened.path / LOCK if opened.shards.cache is None else Path(LOCK)
    path = beside if output is None else Path(output)
    save_lock(path, made)
    return path


def _lock_input(file: InputFile) -> LockedInput:
    revision = re.search(r"^hf://[^@]*@([^/]+)", file.url)
    name = revision[1] if revision else None
    if not file.local:
        return LockedInput(file.url, file.size, file.identity, None, name)
    path = Path(file.url)
    if not path.is_file():
        raise DatasetError(f"{file.url} is gone, so it cannot be locked: restore it")
    if local_identity(path.stat()) != file.identity:
        raise DatasetError(
            f"{file.url} has changed since the dataset was made from it, so a lock of it would be wrong: "
            "restore it, or prepare it again"
        )
    return LockedInput(file.url, file.size, file.identity, hash_file(path), name)


def find_versions() -> dict[str, str]:
    """The versions of everything here that may decide bytes."""
    found = {"tokenmill": find_version("tokenmill"), "python": platform.python_version()}
    found |= {name: find_version(name) for name in _PACKAGES}
    return {name: version for name, version in found.items() if version is not None}
