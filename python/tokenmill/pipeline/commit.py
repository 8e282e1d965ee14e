"""The end of a job: when every unit has its receipt, the manifest is published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.account import Account
from tokenmill.datasets.ledger.manifest import MAX_REJECT_PLACES, Manifest, save_manifest
from tokenmill.datasets.ledger.receipt import SHARDS, load_receipt
from tokenmill.datasets.ledger.splits import VALIDATION, other_part
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tokenmill.datasets.ledger.plan import Plan, Unit
    from tokenmill.datasets.ledger.receipt import Receipt
    from tokenmill.datasets.store.remote import Remote


def find_receipts(root: Path, plan: Plan, remote: Remote | None = None) -> dict[int, Receipt]:
    """The receipts of the units that are done, by ordinal."""
    sizes = None
    if remote is not None:
        remote.pull_receipts(root)
        sizes = remote.store.list_sizes(SHARDS)
    found = ((unit.ordinal, load_receipt(root, unit.name, unit.id, sizes)) for unit in plan.units)
    return {ordinal: receipt for ordinal, receipt in found if receipt is not None}


def find_pending(plan: Plan, receipts: Mapping[int, Receipt]) -> list[Unit]:
    """The units that are still to be done."""
    return [unit for unit in plan.units if unit.ordinal not in receipts]


def build_manifest(plan: Plan, receipts: Mapping[int, Receipt]) -> Manifest:
    """The sum of all receipts, in plan order; raises `DatasetError` naming units that are not done."""
    missing = find_pending(plan, receipts)
    if missing:
        names = ", ".join(unit.name for unit in missing[:5])
        raise DatasetError(
            f"{len(missing)} of {len(plan.units)} units are not done yet, first {names}; "
            "run the same prepare command to finish them"
        )
    ordered = [receipts[unit.ordinal] for unit in plan.units]
    account = Account()
    for receipt in ordered:
        account.add(receipt.account)
    account.check()
    if account.documents_written and account.text_bytes and not account.tokens_encoded:
        raise DatasetError(
            f"{account.documents_written} documents produced no tokens: {plan.target.tokenizer.name} finds "
            "nothing in their text. Check --tokenizer, --pattern and the text field; nothing was published"
        )
    if account.documents_read and account.documents_read == account.documents_dropped["blank"]:
        raise DatasetError(
            f"all {account.documents_read} documents are blank, so there are no tokens. Check the text field "
            "(--text-field); nothing was published"
        )
    _check_share(plan, account)
    places = [place for receipt in ordered for place in receipt.rejects][:MAX_REJECT_PLACES]
    return Manifest(
        format=plan.target.format,
        dtype=plan.target.dtype,
        tokenizer=plan.target.tokenizer,
        packing=plan.target.packing,
        config=plan.values,
        account=account,
        rejects=tuple(places),
        inputs=plan.entries,
        shards=tuple(receipt.shard for receipt in ordered),
    )


def _check_share(plan: Plan, account: Account) -> None:
    """Raise `DatasetError` if a share for validation left one side empty."""
    part, share = plan.values.get("filter.validation_part"), plan.values.get("filter.validation")
    if part is not None and account.documents_dropped[other_part(part)] and not account.documents_written:
        raise DatasetError(
            f"validation {share:.6g} of {account.documents_read:,} documents leaves none for {part}: take "
            f"a {'larger' if part == VALIDATION else 'smaller'} share; no {part} dataset was published"
        )


def commit(root: Path, plan: Plan, receipts: Mapping[int, Receipt], remote: Remote | None = None) -> Manifest:
    """Publish the manifest, after what the format's own readers need."""
    manifest = build_manifest(plan, receipts)
    if (finish := find_format(manifest.format).finish) is not None:
        finish(root, manifest)
    save_manifest(root, manifest)
    if remote is not None:
        remote.publish_manifest(root, manifest)
    return manifest
