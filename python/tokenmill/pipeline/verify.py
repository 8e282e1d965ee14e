"""Verify a dataset against its files and its sources, or rebuild it and compare the hashes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.datasets.dataset import Dataset, open_dataset
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.manifest import PLAN, Manifest, load_manifest
from tokenmill.datasets.ledger.plan import Plan, load_plan
from tokenmill.datasets.ledger.receipt import Account, ShardEntry, parse_receipt, receipt_name
from tokenmill.datasets.ledger.selection import REMOVED, Duplicates, hashes_path, parse_removal
from tokenmill.datasets.mapped import MappedShards
from tokenmill.datasets.records import Records
from tokenmill.datasets.remote import make_local_copy
from tokenmill.datasets.store import read_file
from tokenmill.errors import DatasetError, TokenmillError
from tokenmill.pipeline.executors import Control
from tokenmill.pipeline.job import make_job
from tokenmill.pipeline.prepare import prepare
from tokenmill.pipeline.remove import remove
from tokenmill.pipeline.unit import make_task, run_unit
from tokenmill.report.dataset_tokenizer import load_copy, load_dataset_tokenizer
from tokenmill.settings.resolve import resolve
from tokenmill.settings.schema import JobConfig
from tokenmill.sources.model import MEMORY

DUPLICATE_BUDGET = 256 << 20


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result: `state` is `ok`, `problem` or `skipped`."""

    name: str
    state: str
    detail: str


class _SkippedError(Exception):
    """The reason that a check is not possible."""


def verify_dataset(path: str | Path, *, sample: int = 1, tokenizer: Any = None) -> Iterator[Check]:
    """Yield the result of every check, cheap checks first. Raise `DatasetError` if there is no manifest.

    `sample` is the number of shards that are rebuilt from their sources and compared.
    """
    root = make_local_copy(path)
    manifest = load_manifest(root)
    yield _run("manifest", partial(_check_account, manifest))
    yield _run("plan", partial(_check_plan, root, manifest))
    yield _run("receipts", partial(_check_receipts, root, manifest))
    whole = True
    for shard in manifest.shards:
        check = _run(f"files of {shard.name}", partial(_check_files, root, shard))
        whole = whole and check.state == "ok"
        yield check
    if whole:
        mapped = MappedShards(root, manifest)
        for index, shard in enumerate(manifest.shards):
            yield _run(f"contents of {shard.name}", partial(_check_contents, mapped, manifest, index))
    yield _run("tokenizer", partial(_check_tokenizer, root, manifest, tokenizer))
    # Shards spread over the whole plan, so that not only the first input is checked.
    step = max(1, len(manifest.shards) // max(1, sample))
    for index in range(0, len(manifest.shards), step)[:sample]:
        name = f"sources of {manifest.shards[index].name}"
        yield _run(name, partial(_check_sources, root, manifest, index, tokenizer))


def _run(name: str, work: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", work())
    except _SkippedError as error:
        return Check(name, "skipped", str(error))
    except DatasetError as error:
        return Check(name, "problem", str(error))
    except (OSError, ValueError) as error:
        return Check(name, "problem", f"cannot be read: {error}")


def _check_account(manifest: Manifest) -> str:
    account = manifest.account
    account.check()
    if account.tokens_stored != manifest.tokens:
        raise DatasetError(
            f"the account stores {account.tokens_stored} tokens, the shards have {manifest.tokens}"
        )
    return f"{manifest.documents:,} documents, {manifest.tokens:,} tokens; read = written + dropped"


def _check_plan(root: Path, manifest: Manifest) -> str:
    plan = load_plan(root)
    if plan is None:
        raise _SkippedError(f"there is no {PLAN}, so the sources are not known")
    if [unit.id for unit in plan.units] != [shard.unit for shard in manifest.shards]:
        raise DatasetError("the plan and the manifest list different units: the dataset is not finished")
    if (plan.target.tokenizer, plan.target.packing) != (manifest.tokenizer, manifest.packing):
        raise DatasetError("the plan and the manifest disagree on the tokenizer or the packing")
    return f"{len(plan.units)} units of {len(plan.inputs)} inputs"


def _check_receipts(root: Path, manifest: Manifest) -> str:
    total, paths = Account(), {shard: root / receipt_name(shard.name) for shard in manifest.shards}
    found = {shard: path for shard, path in paths.items() if path.exists()}
    for shard, path in found.items():
        receipt = parse_receipt(path.read_bytes(), str(path))
        if receipt.shard != shard:
            raise DatasetError(f"the receipt of {shard.name} and the manifest disagree")
        total.add(receipt.account)
    if len(found) == len(paths) and total != manifest.account:
        raise DatasetError("the receipts do not add up to the manifest's account")
    return f"{len(found)} of {len(paths)} receipts are there and agree"


def _check_files(root: Path, shard: ShardEntry) -> str:
    for entry in shard.files:
        entry.check_size(root, hashed=True)
    return f"{len(shard.files)} files, {sum(entry.bytes for entry in shard.files):,} bytes, hashes agree"


def _check_contents(mapped: MappedShards, manifest: Manifest, index: int) -> str:
    if not find_format(manifest.format).readable:
        raise _SkippedError(f"the format {manifest.format} is read by its own library only")
    shard, limit, eos = manifest.shards[index], manifest.tokenizer.vocab_size, manifest.packing.eos_id
    items = tokens = 0
    for _, ids, offsets in mapped.read_documents(index):
        if (np.diff(offsets) < 0).any() or offsets[-1] != len(ids):
            raise DatasetError(f"{shard.name}: the offsets of its documents do not rise: they are damaged")
        if len(ids) and int(ids.max()) >= limit:
            place = tokens + int(np.argmax(ids >= limit))
            raise DatasetError(
                f"token {place} of {shard.name} is {int(ids.max())}, the vocabulary has {limit}"
            )
        if manifest.layout == "documents" and eos is not None and (ids[offsets[1:] - 1] != eos).any():
            raise DatasetError(f"{shard.name}: a document does not end with the EOS of the manifest, {eos}")
        items += len(offsets) - 1
        tokens += len(ids)
    expected = shard.rows if manifest.layout == "rows" else shard.documents
    if (items, tokens) != (expected, shard.tokens):
        raise DatasetError(
            f"{shard.name} has {items} items of {tokens} tokens, not {expected} of {shard.tokens}"
        )
    return f"{items:,} items, {tokens:,} tokens, every id below {limit}"


def _check_tokenizer(root: Path, manifest: Manifest, tokenizer: Any) -> str:
    load_copy(root, manifest)
    try:
        found = load_dataset_tokenizer(root, manifest, tokenizer)
    except DatasetError:
        raise
    except TokenmillError as error:
        raise _SkippedError(f"not available: {error}; name it with `tokenizer`") from None
    return f"{found.vocab_size:,} ids, the fingerprint agrees"


def _check_sources(root: Path, manifest: Manifest, index: int, tokenizer: Any) -> str:
    """Encode a shard again from its sources, and compare its files."""
    plan, shard = load_plan(root), manifest.shards[index]
    if plan is None:
        raise _SkippedError(f"there is no {PLAN}, so the sources are not known")
    if "filter.function" in plan.values:
        raise _SkippedError("a Python function chose the documents, and is not part of the dataset")
    if (root / REMOVED).exists():
        raise _SkippedError("documents that the sources have were removed")
    config, unit, again = restore_config(plan), plan.units[index], None
    try:
        encoder = load_dataset_tokenizer(root, manifest, tokenizer)
        if config.filter.deduplicate:
            names = [other.name for other in plan.units if hashes_path(root, other.name).exists()]
            again = Duplicates(root, names, DUPLICATE_BUDGET).find_in(unit.name)
        with tempfile.TemporaryDirectory(prefix="tokenmill-verify-") as place:
            job = replace(make_job(config, encoder, root=Path(place)), dtype=plan.target.dtype)
            made = run_unit(job, make_task(unit, plan.inputs, again), Control()).shard
    except DatasetError:
        raise
    except (TokenmillError, OSError) as error:
        raise _SkippedError(f"cannot be encoded again: {error}") from None
    if [entry.sha256 for entry in shard.files] != [entry.sha256 for entry in made.files]:
        raise DatasetError(f"{shard.name} differs when it is encoded again from the sources")
    return f"{made.documents:,} documents encoded again from the sources, all files equal"


def restore_config(plan: Plan) -> JobConfig:
    """Return the settings of a plan as a config."""
    known, packing = JobConfig().list_deciding_settings(), plan.target.packing
    # None would mean the tokenizer's default. The plan has the ids that were used.
    view = ({} if packing.view is None else packing.view.to_settings()) | {
        "pad_token": packing.pad_id,
        "bos": False if packing.bos_id is None else packing.bos_id,
        "eos": False if packing.eos_id is None else packing.eos_id,
    }
    values = {name: value for name, value in plan.values.items() if name in known}
    values |= {f"packing.{key}": value for key, value in view.items()}
    values["tokenizer.tokenizer_name"] = plan.target.tokenizer.name
    return resolve(flags=values, environ={}, job="prepare").config


def rebuild(
    dataset: str | Path, output: str | Path, *, inputs: str | Path | None = None, tokenizer: Any = None
) -> Dataset:
    """Run `prepare` with the settings of `dataset` and compare the result with it.

    Args:
        dataset: A finished dataset.
        output: The directory of the new dataset.
        inputs: The directory that holds the inputs now, in the same layout as before.
        tokenizer: The tokenizer, if neither its copy nor its name can be loaded.

    Returns:
        The new dataset, whose content hash equals that of `dataset`.

    Raises:
        DatasetError: The inputs are not recorded, or the new dataset differs from `dataset`.
    """
    old, root = open_dataset(dataset), Path(output)
    plan = Records(old).plan
    removal = parse_removal(read_file(old.address, REMOVED))
    whole = root if removal is None else root.with_name(f"{root.name}.whole")
    encoder = load_dataset_tokenizer(old.address, old.manifest, tokenizer)
    settings = restore_config(plan).list_deciding_settings()
    options = {name: value for name, value in settings.items() if value is not None}
    quiet: Any = options | {"report": False, "verbose_level": "ERROR"}
    made: Dataset = prepare(_locate_inputs(plan, inputs), encoder, whole, **quiet)
    if removal is not None:
        made = remove(whole, removal.documents, root)
        shutil.rmtree(whole)
    if made.content_hash != old.content_hash:
        pairs = zip(old.manifest.shards, made.manifest.shards, strict=False)
        differ = [there.name for there, here in pairs if there.files != here.files]
        raise DatasetError(
            f"{made.address} differs from {old.address}: {len(old.manifest.shards):,} shards before, "
            f"{len(made.manifest.shards):,} now, different ones: {', '.join(differ[:3]) or 'none'}. "
            "An input, the tokenizer or the version of a library has changed"
        )
    return made


def _locate_inputs(plan: Plan, place: str | Path | None) -> list[str]:
    """Return the inputs of a plan as paths and URLs, the local ones below `place` if it is given."""
    if "filter.function" in plan.values or any(file.format == MEMORY for file in plan.inputs):
        raise DatasetError(
            "the dataset was made from data in memory or by a Python function (keep=...), which is not "
            "recorded: prepare it again in Python"
        )
    urls = [file.url for file in plan.inputs]
    local = [Path(file.url) for file in plan.inputs if file.local]
    if place is None or not local:
        return urls
    common = os.path.commonpath([path.parent for path in local])
    moved = {str(path): str(Path(place) / path.relative_to(common)) for path in local}
    return [moved.get(url, url) for url in urls]
