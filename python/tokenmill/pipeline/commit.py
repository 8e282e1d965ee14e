"""Write to an output directory: one job at a time, system errors with a remedy, the manifest at the end."""

from __future__ import annotations

import errno
import logging
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.durable import sweep_leftovers
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.manifest import MAX_REJECT_PLACES, PLAN, InputEntry, Manifest, save_manifest
from tokenmill.datasets.ledger.plan import load_plan
from tokenmill.datasets.ledger.receipt import SHARDS, Account, load_receipt
from tokenmill.datasets.ledger.selection import VALIDATION, other_part
from tokenmill.datasets.remote import Remote
from tokenmill.errors import ConfigError, DatasetError, InterruptedJobError, TokenmillError
from tokenmill.report.report import report_if_possible
from tokenmill.sources.stores import is_remote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tokenmill.datasets.ledger.plan import Plan, Unit
    from tokenmill.datasets.ledger.receipt import Receipt


logger = logging.getLogger("tokenmill.prepare")
LOCK = ".lock"
_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}


@contextmanager
def lock_dataset(root: Path) -> Iterator[None]:
    """Hold the lock of a dataset directory. Every job that writes into a dataset takes it."""
    from filelock import FileLock, Timeout  # here, since importing it takes 50 ms

    root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(root / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        logger.info("Waiting for another process that is preparing the same dataset...")
        lock.acquire()
    try:
        yield
    finally:
        # A process that waits for the removed file notices and opens a new one.
        with suppress(OSError):
            (root / LOCK).unlink()
        lock.release()


@contextmanager
def explain_faults(output: str | Path) -> Iterator[None]:
    """Raise a system `OSError` as a `ConfigError` or an `InterruptedJobError` that names the output."""
    try:
        yield
    except OSError as error:
        if isinstance(error, TokenmillError):
            raise
        raise _explain(error, Path(output)) from error


def _explain(error: OSError, output: Path) -> TokenmillError:
    words = error.strerror or type(error).__name__
    where = f"{error.filename}: {words}" if error.filename else words
    if error.errno in _FULL:
        return InterruptedJobError(
            f"no space left for {output} ({where}). What is finished is safe: free some space and run the "
            "same command again"
        )
    in_the_way = error.errno == errno.EEXIST and output.exists() and not output.is_dir()
    if error.errno in _REFUSED or in_the_way:
        return ConfigError(
            f"{output} cannot be written ({where}). Get permission to write there, or name another output"
        )
    if error.errno == errno.ENOENT and not _can_create(output, error.filename):
        return ConfigError(f"{output} cannot be created ({where}). Name another output")
    inside = Path(str(error.filename)).is_relative_to(output)
    if error.errno == errno.ENOENT and (inside or not output.exists()):
        what = f"a part of {output}" if output.exists() else f"{output}"
        return InterruptedJobError(
            f"{what} was removed while a job wrote there ({where}). The same command makes it again"
        )
    return InterruptedJobError(
        f"{output}: the system failed while a job wrote there ({where}). What is finished is safe: fix the "
        "cause and run the same command again"
    )


def _can_create(output: Path, missing: object) -> bool:
    """Return True unless the system refuses to create the output; only trying it tells for `/proc`."""
    if output.exists() or missing not in {str(path) for path in (output, *output.parents)}:
        return True
    first = next(path for path in (*reversed(output.parents), output) if not path.exists())
    try:
        first.mkdir()
        first.rmdir()
    except OSError:
        return False
    return True


def find_receipts(root: Path, plan: Plan, remote: Remote | None = None) -> dict[int, Receipt]:
    """Return the receipts of the finished units, by ordinal."""
    sizes = None
    if remote is not None:
        remote.pull_receipts(root)
        sizes = remote.list_sizes(SHARDS)
    found = ((unit.ordinal, load_receipt(root, unit.name, unit.id, sizes)) for unit in plan.units)
    return {ordinal: receipt for ordinal, receipt in found if receipt is not None}


def find_pending(plan: Plan, receipts: Mapping[int, Receipt]) -> list[Unit]:
    """Return the units that have no receipt."""
    return [unit for unit in plan.units if unit.ordinal not in receipts]


def commit(root: Path, plan: Plan, receipts: Mapping[int, Receipt], remote: Remote | None = None) -> Manifest:
    """Publish the manifest, after the files that the format's own readers need."""
    manifest = _build_manifest(plan, receipts)
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
    plan = load_plan(root)
    if plan is None:
        raise DatasetError(f"{directory} has no {PLAN}; give the output directory of a prepare job")
    with explain_faults(root), lock_dataset(root):
        manifest = commit(root, plan, find_receipts(root, plan, remote), remote)
    report_if_possible(directory)
    sweep_leftovers(root)  # of a commit that was killed
    return manifest


def _build_manifest(plan: Plan, receipts: Mapping[int, Receipt]) -> Manifest:
    """Sum all receipts in plan order; raise `DatasetError` for missing units or a dataset without tokens."""
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
    _check_account(plan, account)
    places = [place for receipt in ordered for place in receipt.rejects][:MAX_REJECT_PLACES]
    return Manifest(
        format=plan.target.format,
        dtype=plan.target.dtype,
        tokenizer=plan.target.tokenizer,
        packing=plan.target.packing,
        config=plan.values,
        account=account,
        rejects=tuple(places),
        inputs=tuple(InputEntry(file.url, file.size, file.identity) for file in plan.inputs),
        shards=tuple(receipt.shard for receipt in ordered),
    )


def _check_account(plan: Plan, account: Account) -> None:
    """Raise `DatasetError` if the documents gave no tokens, or a share for validation left one side empty."""
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
    part, share = plan.values.get("filter.validation_part"), plan.values.get("filter.validation")
    if part is not None and account.documents_dropped[other_part(part)] and not account.documents_written:
        raise DatasetError(
            f"validation {share:.6g} of {account.documents_read:,} documents leaves none for {part}: take "
            f"a {'larger' if part == VALIDATION else 'smaller'} share; no {part} dataset was published"
        )
