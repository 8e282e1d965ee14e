"""`tokenmill dataset remove`: remove documents by rewriting only the shards that contain them.

Each shard is a unit with a receipt, as in `prepare`. Affected shards are rewritten from their own tokens, the
others are linked. After an interruption the same call resumes.
"""

from __future__ import annotations

import shutil
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.durable import digest, sweep_leftovers
from tokenmill.base.texts import is_learned
from tokenmill.datasets.dataset import Dataset, open_dataset
from tokenmill.datasets.documents import Origins, select_documents
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN
from tokenmill.datasets.ledger.plan import Plan, Unit, load_plan, save_plan
from tokenmill.datasets.ledger.provenance import read_origins
from tokenmill.datasets.ledger.receipt import (
    RECEIPTS,
    SHARDS,
    Account,
    Receipt,
    ShardEntry,
    load_receipt,
    receipt_name,
    save_receipt,
)
from tokenmill.datasets.ledger.selection import (
    Removal,
    RemovedDocument,
    check_numbers,
    hashes_path,
    load_removal,
    read_list,
    save_removal,
)
from tokenmill.datasets.records import PROVENANCE
from tokenmill.datasets.remote import COPY, pass_on_copy
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.pipeline.commit import commit
from tokenmill.pipeline.encode import Encoded
from tokenmill.pipeline.output import explain_faults, lock_dataset
from tokenmill.pipeline.traces import SourceDocuments
from tokenmill.pipeline.unit import ShardBuilder


def remove(
    dataset: str | Path,
    documents: str | Path | Mapping[int, str],
    output: str | Path,
    *,
    tokenizer: Any = None,
) -> Dataset:
    """Write a copy of `dataset` without some documents. The others keep their order.

    >>> import tokenmill
    >>> made = tokenmill.prepare(
    ...     dataset=["one", "two", "three"], tokenizer=tokenizer, output="out", verbose_level="ERROR"
    ... )
    >>> less = tokenmill.remove("out", {1: "takedown"}, "less")
    >>> [tokenizer.decode(ids, skip_special_tokens=True) for ids in less]
    ['one', 'three']
    >>> dict(less.manifest.account.documents_dropped)
    {'takedown': 1}

    Args:
        dataset: A finished dataset on a local file system.
        documents: A file with one document per line (see docs/audit.md), or a mapping of document numbers
            to reasons.
        output: The directory of the new dataset.
        tokenizer: The tokenizer of `dataset`, to search for texts, if it has moved.

    Returns:
        The new dataset: equal to one prepared without those documents, unless duplicates were dropped.

    Raises:
        DatasetError: A document cannot be found, or the dataset cannot be rewritten from its own tokens.
        ConfigError: The list cannot be read, or `output` holds something else.
    """
    source, root = open_dataset(dataset), Path(output)
    plan = _check_source(source, root)
    found = dict(documents) if not isinstance(documents, str | Path) else _find(source, documents, tokenizer)
    removal = Removal(
        source.content_hash, tuple(RemovedDocument(number, found[number]) for number in sorted(found))
    )
    check_numbers(removal, source.num_documents)
    with explain_faults(root), lock_dataset(root):
        _begin(root, removal)
        changed = [_Unit(source, unit, removal) for unit in plan.units]
        new = replace(plan, units=tuple(each.unit for each in changed))
        pass_on_copy(source.path, root)
        save_plan(root, new)
        receipts = {each.unit.ordinal: each.write(root, plan) for each in changed}
        commit(root, new, receipts)
    return open_dataset(root)


def _check_source(source: Dataset, root: Path) -> Plan:
    if source.shards.cache is not None:
        raise DatasetError(f"{source.address} is in an object store: copy it here, and remove from the copy")
    source.require_mappable()
    plan = load_plan(source.path)
    if plan is None:
        raise DatasetError(
            f"{source.address} has no {PLAN} (converted, or copied in part): remove from the dataset that it "
            "was made from, and convert that"
        )
    if [unit.id for unit in plan.units] != [shard.unit for shard in source.manifest.shards]:
        raise DatasetError(f"{source.address} is being added to by another job: wait until that has finished")
    if root.resolve() == Path(source.path).resolve():
        raise ConfigError(f"{root} is the dataset itself: name another output")
    return plan


def _begin(root: Path, removal: Removal) -> None:
    """Claim the output for this removal, or resume the same removal."""
    before = load_removal(root)
    strange = (root / MANIFEST).exists() or (root / PLAN).exists()
    if (before is not None and before != removal) or (before is None and strange):
        raise ConfigError(f"{root} contains another dataset: choose another output, or delete it")
    root.mkdir(parents=True, exist_ok=True)
    for place in (root, root / SHARDS, root / RECEIPTS, root / COPY):
        sweep_leftovers(place)
    if before is None:
        save_removal(root, removal)


def _find(source: Dataset, path: str | Path, tokenizer: Any) -> dict[int, str]:
    """Return the numbers of the documents in a list, each with its reason."""
    try:
        lines = list(read_list(path))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    known = SourceDocuments(source.rows(1, packing="concat"), tokenizer)
    found: dict[int, str] = {}
    for way in dict.fromkeys(line.way for line in lines):
        reasons = {line.value: line.reason for line in lines if line.way == way}
        try:
            numbers = {} if way == "document" else known.find(way, list(reasons))
        except (DatasetError, ConfigError) as error:
            raise type(error)(f"{path}: {error}") from None
        for value, reason in reasons.items():
            found |= dict.fromkeys(numbers.get(value, [value]), reason)
    if not found:
        raise ConfigError(f"{path} names no document")
    return found


class _Unit:
    """A shard of the old dataset and its unit in the new one."""

    def __init__(self, source: Dataset, unit: Unit, removal: Removal) -> None:
        start, end = source.shards.document_starts[unit.ordinal : unit.ordinal + 2]
        self.source = source
        self.old = unit
        low, high = (
            bisect_left(removal.documents, place, key=lambda each: each.number) for place in (start, end)
        )
        self.reasons = {each.number - start: each.reason for each in removal.documents[low:high]}
        self.unit = unit
        if self.reasons:
            identity = digest({"unit": unit.id, "removed": sorted(self.reasons)})
            self.unit = replace(unit, id=identity)

    def write(self, root: Path, plan: Plan) -> Receipt:
        """Return the receipt of the shard, after linking or rewriting it if it is not done yet."""
        done = load_receipt(root, self.unit.name, self.unit.id)
        if done is not None:
            return done
        path = self.source.path / receipt_name(self.old.name)
        receipt = load_receipt(self.source.path, self.old.name, self.old.id)
        if receipt is None:
            raise DatasetError(f"{path} is missing or damaged, so the account of the shard is not known")
        hashes = hashes_path(self.source.path, self.old.name)
        if hashes.exists():
            # Removed documents keep their hashes, so that later copies are dropped as duplicates.
            _link(hashes, hashes_path(root, self.unit.name))
        if not self.reasons:
            for entry in receipt.shard.files:
                _link(self.source.path / entry.path, root / entry.path)
        else:
            receipt = self._rewrite(root, plan, receipt)
        save_receipt(root, receipt)
        return receipt

    def _rewrite(self, root: Path, plan: Plan, receipt: Receipt) -> Receipt:
        entry, origins = self.source.manifest.shards[self.old.ordinal], None
        named = any(file.role == PROVENANCE for file in entry.files)
        if named:
            with read_origins(self.source.shards.path(entry.file(PROVENANCE))) as table:
                parts, rows = table["part"].to_numpy(), table["row"].to_numpy()
                origins = Origins(parts, rows, table["id"].combine_chunks())
        builder = ShardBuilder(plan.target, root, self.unit.name, provenance=named, marked=self.marked)
        builder.account.documents_dropped.update(self.reasons.values())
        try:
            for encoded in self._read(origins, builder.account):
                builder.add(encoded)
            files = builder.close()
        finally:
            builder.discard()
        account = receipt.account.rewrite(builder.account)
        shard = ShardEntry(
            self.unit.name, self.unit.id, builder.documents, account.tokens_stored, builder.rows, tuple(files)
        )
        return replace(receipt, shard=shard, account=account)

    @property
    def marked(self) -> bool:
        """True if the dataset contains conversations, which have a loss mask."""
        return self.source.manifest.account.learned_read > 0

    def _read(self, origins: Origins | None, account: Account) -> Iterator[Encoded]:
        """Yield the kept documents, and count the tokens of the others."""
        shards, ordinal = self.source.shards, self.old.ordinal
        for first, ids, offsets in shards.read_documents(ordinal, marked=self.marked):
            count = len(offsets) - 1
            gone = [local - first for local in self.reasons if first <= local < first + count]
            for local in gone:
                reason = self.reasons[first + local]
                account.tokens_dropped[reason] += int(offsets[local + 1] - offsets[local])
                if self.marked:
                    trained = is_learned(ids[offsets[local] : offsets[local + 1]])
                    account.learned_dropped[reason] += int(trained.sum())
            mask = np.ones(count, bool)
            mask[gone] = False
            here = Origins(0, np.arange(count)) if origins is None else origins.slice(first, count)
            yield Encoded(*select_documents(ids, offsets, mask), here.take(mask))


def _link(source: Path, target: Path) -> None:
    """Link a file, or copy it if the file system cannot link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)
