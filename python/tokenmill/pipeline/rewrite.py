"""Write a dataset again from its own tokens: without some documents, in another format, or with other ids.

Each shard is a unit with a receipt, as in `prepare`. Shards that do not change are linked. After an
interruption the same call resumes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.durable import digest, publish_bytes
from tokenmill.base.records import to_plain
from tokenmill.datasets.dataset import Dataset, open_dataset
from tokenmill.datasets.documents import Origins
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN, Target
from tokenmill.datasets.ledger.plan import Plan, Unit, load_plan, save_plan
from tokenmill.datasets.ledger.provenance import read_origins
from tokenmill.datasets.ledger.receipt import Account, Receipt, load_receipt, receipt_name, save_receipt
from tokenmill.datasets.ledger.selection import REMOVED, hashes_path
from tokenmill.datasets.records import PROVENANCE
from tokenmill.datasets.remote import COPY, make_local_copy
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.pipeline.commit import commit, sweep_dataset
from tokenmill.pipeline.encode import Encoded
from tokenmill.pipeline.output import Progress, explain_faults, lock_dataset
from tokenmill.pipeline.unit import ShardBuilder
from tokenmill.sources.stores import is_remote

# Return some documents as they are to be written, from (shard, number of the first, documents, account).
Change = Callable[[int, int, Encoded, Account], Encoded]


def open_source(dataset: str | Path, output: str | Path) -> tuple[Dataset, Plan]:
    """Open a dataset that is to be written again to `output`, and its plan."""
    if is_remote(output):
        raise ConfigError(f"{output} is a URL: name a directory, and copy the dataset there")
    source = open_dataset(make_local_copy(dataset))
    if Path(output).resolve() == source.path.resolve():
        raise ConfigError(f"{output} is the dataset itself: name another output")
    if source.manifest.layout == "rows" or not find_format(source.manifest.format).readable:
        what = "rows" if source.manifest.layout == "rows" else "files"
        raise DatasetError(
            f"documents cannot be read from the {what} of {dataset}, which are in the format "
            f"{source.manifest.format}: prepare it again with the format tokenmill, and convert that"
        )
    plan = load_plan(source.path)
    if plan is None:
        raise DatasetError(f"{dataset} has no {PLAN}: it was copied in part. Copy all of it")
    if [unit.id for unit in plan.units] != [shard.unit for shard in source.manifest.shards]:
        raise DatasetError(f"{dataset} is being added to by another job: wait until that has finished")
    return source, plan


def read_side_files(root: Path) -> dict[str, bytes]:
    """Return the tokenizer copy and the list of removed documents of a dataset, by name."""
    paths = [path for path in (root / COPY).rglob("*") if path.is_file() and path.name[0] != "."]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in [*paths, *root.glob(REMOVED)]}


def write_again(
    source: Dataset,
    plan: Plan,
    output: str | Path,
    change: Change,
    *,
    files: Mapping[str, bytes],
    target: Target | None = None,
    values: Mapping[str, Any] | None = None,
    removed: Mapping[int, Mapping[int, str]] | None = None,
) -> Dataset:
    """Write the documents of a dataset, changed by `change`, to a new dataset.

    `files` are the tokenizer copy and other files next to the shards. `target` and `values` are what differs
    from the plan. `removed` has the reasons of removed documents, by shard and number in the shard.
    """
    root, target, units = Path(output), target or plan.target, []
    for unit in plan.units:
        identity: dict[str, Any] = {} if target == plan.target else {"target": to_plain(target)}
        if removed and unit.ordinal in removed:
            identity["removed"] = removed[unit.ordinal]
        units.append(replace(unit, id=digest({"unit": unit.id} | identity)) if identity else unit)
    new = replace(plan, target=target, values=plan.values | dict(values or {}), units=tuple(units))
    with explain_faults(root), lock_dataset(root):
        there = load_plan(root)
        if (there is None and (root / MANIFEST).exists()) or (there and there.units != new.units):
            raise ConfigError(f"{root} contains another dataset: choose another output, or delete it")
        sweep_dataset(root)
        for name, data in files.items():
            publish_bytes(root / name, data)
        save_plan(root, new)
        receipts = {}
        with Progress() as progress, progress.stage("Writing", len(units), "shards"):
            for before, unit in zip(plan.units, new.units, strict=True):
                done = load_receipt(root, unit.name, unit.id)
                receipts[unit.ordinal] = done or _write_shard(source, before, unit, target, root, change)
                progress.count(units_done=1)
        commit(root, new, receipts)
    return open_dataset(root)


def _write_shard(
    source: Dataset, before: Unit, unit: Unit, target: Target, root: Path, change: Change
) -> Receipt:
    """Link or rewrite a shard, and return its receipt."""
    receipt = load_receipt(source.path, before.name, before.id)
    if receipt is None:
        path = source.path / receipt_name(before.name)
        raise DatasetError(f"{path} is missing or damaged, so the account of the shard is not known")
    if (hashes := hashes_path(source.path, before.name)).exists():
        # Removed documents keep their hashes, so that later copies are dropped as duplicates.
        _link(hashes, hashes_path(root, unit.name))
    if unit == before:
        for entry in receipt.shard.files:
            _link(source.path / entry.path, root / entry.path)
    else:
        receipt = _rewrite(source, receipt, unit, target, root, change)
    save_receipt(root, receipt)
    return receipt


def _rewrite(
    source: Dataset, receipt: Receipt, unit: Unit, target: Target, root: Path, change: Change
) -> Receipt:
    origins, marked = None, source.manifest.account.learned_read > 0
    for entry in receipt.shard.files:
        # Corrupt ids would get a valid hash in the new dataset.
        entry.check_size(source.path, hashed=True)
        if entry.role == PROVENANCE:
            table = read_origins(source.path / entry.path)
            parts, rows = table["part"].to_numpy(), table["row"].to_numpy()
            origins = Origins(parts, rows, table["id"].combine_chunks())
    with ShardBuilder(target, root, unit, provenance=origins is not None, marked=marked) as builder:
        for first, ids, offsets in source.shards.read_documents(unit.ordinal, marked=marked):
            count = len(offsets) - 1
            here = Origins(0, np.arange(count)) if origins is None else origins.slice(first, count)
            unsigned = ids.astype(np.uint16 if ids.dtype.itemsize == 2 else np.uint32, copy=False)
            documents = Encoded(unsigned, offsets, here)
            builder.add(change(unit.ordinal, first, documents, builder.account))
        shard = builder.close()
    return replace(receipt, shard=shard, account=receipt.account.rewrite(builder.account))


def _link(source: Path, target: Path) -> None:
    """Link a file, or copy it if the file system cannot link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)
