"""Collect the receipts of a job and publish the manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tokenmill.base.durable import sweep_leftovers
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.layout import VIEWS
from tokenmill.datasets.ledger.manifest import PLAN, InputEntry, Manifest, load_manifest, save_manifest
from tokenmill.datasets.ledger.plan import Plan, Unit, load_plan
from tokenmill.datasets.ledger.receipt import RECEIPTS, SHARDS, Account, Receipt, load_receipt
from tokenmill.datasets.ledger.selection import DUPLICATES, VALIDATION, other_part
from tokenmill.datasets.remote import COPY, Remote
from tokenmill.errors import DatasetError
from tokenmill.pipeline.output import explain_faults, lock_dataset
from tokenmill.sources.stores import is_remote

MAX_REJECT_PLACES = 100


def find_receipts(root: Path, plan: Plan, remote: Remote | None = None) -> dict[int, Receipt]:
    """Return the receipts of the finished units, by ordinal."""
    sizes = None
    if remote is not None:
        remote.pull_receipts(root)
        sizes = remote.list_sizes(SHARDS)
    found = ((unit.ordinal, load_receipt(root, unit.name, unit.id, sizes)) for unit in plan.units)
    return {ordinal: receipt for ordinal, receipt in found if receipt is not None}


def sweep_dataset(root: Path) -> None:
    """Delete the unfinished files of dead processes of this host."""
    for place in ("", SHARDS, RECEIPTS, DUPLICATES, COPY, VIEWS):
        sweep_leftovers(root / place)


def find_pending(plan: Plan, receipts: Mapping[int, Receipt]) -> list[Unit]:
    """Return the units that have no receipt."""
    return [unit for unit in plan.units if unit.ordinal not in receipts]


def commit(root: Path, plan: Plan, receipts: Mapping[int, Receipt], remote: Remote | None = None) -> Manifest:
    """Publish the manifest, after the files that the format's own readers need.

    Raise `DatasetError` for missing units or no tokens.
    """
    if missing := find_pending(plan, receipts):
        names = ", ".join(unit.name for unit in missing[:5])
        raise DatasetError(
            f"{len(missing)} of {len(plan.units)} units are not done yet, first {names}; "
            "run the same prepare command to finish them"
        )
    manifest = make_manifest(plan, [receipts[unit.ordinal] for unit in plan.units])
    with suppress(DatasetError):  # nothing is published yet
        before = load_manifest(root)
        sizes = (*before.grown, len(before.shards))
        manifest = replace(manifest, grown=tuple(size for size in sizes if size < len(plan.units)))
    manifest.account.check()
    _check_account(plan, manifest.account)
    if (finish := find_format(manifest.format).finish) is not None:
        finish(root, manifest)
    save_manifest(root, manifest)
    if remote is not None:
        remote.publish_manifest(root, manifest)
    return manifest


def commit_directory(directory: str | Path) -> Manifest:
    """Publish the manifest of an output directory, or raise `DatasetError` naming the missing units."""
    remote = Remote(str(directory)) if is_remote(directory) else None
    root = remote.work if remote is not None else Path(directory)
    if remote is not None:
        remote.pull(root)
    if (plan := load_plan(root)) is None:
        raise DatasetError(f"{directory} has no {PLAN}; give the output directory of a prepare job")
    with explain_faults(root), lock_dataset(root):
        manifest = commit(root, plan, find_receipts(root, plan, remote), remote)
    from tokenmill.report.dataset import report_if_possible

    report_if_possible(directory)
    sweep_dataset(root)
    return manifest


def make_manifest(plan: Plan, receipts: Sequence[Receipt]) -> Manifest:
    """Return the manifest of units in the order of the plan."""
    account = Account()
    for receipt in receipts:
        account.add(receipt.account)
    return Manifest(
        format=plan.target.format,
        dtype=plan.target.dtype,
        tokenizer=plan.target.tokenizer,
        packing=plan.target.packing,
        config=plan.values,
        account=account,
        rejects=tuple(place for receipt in receipts for place in receipt.rejects)[:MAX_REJECT_PLACES],
        inputs=tuple(InputEntry(file.url, file.size, file.identity) for file in plan.inputs),
        shards=tuple(receipt.shard for receipt in receipts),
    )


def _check_account(plan: Plan, account: Account) -> None:
    """Raise `DatasetError` if no document gave tokens, or if this side of a split is empty."""
    blank = account.documents_dropped["blank"]
    silent = account.documents_written and account.text_bytes and not account.tokens_encoded
    if silent or (blank and blank == account.documents_read):
        raise DatasetError(
            f"{account.documents_read} documents produced no tokens ({blank} are blank). Check the text "
            "field (`text_field`), `tokenizer` and `pattern`; nothing was published"
        )
    part, share = plan.values.get("filter.validation_part"), plan.values.get("filter.validation")
    if part is not None and account.documents_dropped[other_part(part)] and not account.documents_written:
        raise DatasetError(
            f"validation {share:.6g} of {account.documents_read:,} documents leaves none for {part}: take "
            f"a {'larger' if part == VALIDATION else 'smaller'} share; no {part} dataset was published"
        )
