"""Verify a dataset against its files and its sources, or rebuild it and compare the hashes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenmill.datasets.dataset import Dataset, open_dataset
from tokenmill.datasets.ledger.checks import Check, check_dataset
from tokenmill.datasets.ledger.manifest import PLAN, Manifest, load_manifest
from tokenmill.datasets.ledger.plan import Plan, load_plan
from tokenmill.datasets.ledger.receipt import ShardEntry
from tokenmill.datasets.ledger.selection import REMOVED, Duplicates, hashes_path, load_removal, parse_removal
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
from tokenmill.settings.schema import JobConfig
from tokenmill.sources.model import MEMORY
from tokenmill.tokenizer.tokenizer import Tokenizer

DUPLICATE_BUDGET = 256 << 20


def verify_dataset(path: str | Path, *, sample: int = 1, tokenizer: Any = None) -> Iterator[Check]:
    """Yield the result of every check. Raise `DatasetError` if there is no manifest.

    `sample` is the number of shards that are rebuilt from their sources and compared.
    """
    root = make_local_copy(path)
    manifest = load_manifest(root)
    yield from check_dataset(root, manifest)
    try:
        if load_copy(root, manifest) is not None:
            yield Check("tokenizer copy", "ok", "the dataset keeps its tokenizer, and the fingerprint agrees")
    except DatasetError as error:
        yield Check("tokenizer copy", "problem", str(error))
    try:
        found = load_dataset_tokenizer(root, manifest, tokenizer)
        yield Check("tokenizer", "ok", f"{found.vocab_size:,} ids, the fingerprint agrees")
    except DatasetError as error:
        yield Check("tokenizer", "problem", str(error))
    except TokenmillError as error:
        yield Check("tokenizer", "skipped", f"not available: {error}; name it with --tokenizer")
    if sample:
        yield from _check_remade(root, manifest, sample, tokenizer)


def _check_remade(root: Path, manifest: Manifest, sample: int, tokenizer: Any) -> Iterator[Check]:
    plan, removal, why = load_plan(root), load_removal(root), None
    if plan is None:
        why = f"there is no {PLAN}, so the sources are not known"
    elif "filter.function" in plan.values:
        why = "a Python function chose the documents, and is not part of the dataset"
    elif removal is not None:
        why = f"{len(removal.documents):,} documents that the sources have were removed"
    if plan is None or why is not None:
        yield Check("sources", "skipped", why or "")
        return
    # Shards spread over the whole plan, so that not only the first input is checked.
    step = max(1, len(manifest.shards) // sample)
    for index in range(0, len(manifest.shards), step)[:sample]:
        yield _remake(root, plan, manifest, index, tokenizer)


def _remake(root: Path, plan: Plan, manifest: Manifest, index: int, tokenizer: Any) -> Check:
    shard = manifest.shards[index]
    name = f"sources of {shard.name}"
    try:
        with tempfile.TemporaryDirectory(prefix="tokenmill-verify-") as place:
            made = _make_again(root, plan, manifest, index, tokenizer, Path(place))
    except (TokenmillError, OSError) as error:
        if isinstance(error, DatasetError):
            return Check(name, "problem", str(error))
        return Check(name, "skipped", f"cannot be encoded again: {error}")
    differ = [
        entry.path
        for entry, again in zip(shard.files, made.files, strict=False)
        if entry.sha256 != again.sha256
    ]
    if differ or len(made.files) != len(shard.files):
        return Check(name, "problem", f"encoded again from the sources, these differ: {', '.join(differ)}")
    return Check(name, "ok", f"{made.documents:,} documents encoded again from the sources, all files equal")


def _make_again(
    root: Path, plan: Plan, manifest: Manifest, index: int, tokenizer: Any, place: Path
) -> ShardEntry:
    config, unit = restore_config(plan), plan.units[index]
    encoder = load_dataset_tokenizer(root, manifest, tokenizer)
    again = None
    if config.filter.deduplicate:
        names = [other.name for other in plan.units if hashes_path(root, other.name).exists()]
        again = Duplicates(root, names, DUPLICATE_BUDGET).find_in(unit.name)
    job = replace(make_job(config, encoder, root=place), dtype=plan.target.dtype)
    return run_unit(job, make_task(unit, plan.inputs, again), Control()).shard


def restore_config(plan: Plan) -> JobConfig:
    """Return the settings of a plan as a config."""
    sections: dict[str, dict[str, Any]] = {}
    known = set(JobConfig().list_deciding_settings())
    for name, value in plan.values.items():
        section, _, key = name.partition(".")
        if name in known:
            sections.setdefault(section, {})[key] = value
    packing = plan.target.packing
    # None would mean the tokenizer's default. The plan has the ids that were used.
    sections["packing"] |= ({} if packing.view is None else packing.view.to_settings()) | {
        "pad_token": packing.pad_id,
        "bos": False if packing.bos_id is None else packing.bos_id,
        "eos": False if packing.eos_id is None else packing.eos_id,
    }
    sections["tokenizer"]["tokenizer_name"] = plan.target.tokenizer.name
    return JobConfig.from_dict(sections)


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
    if plan is None:
        raise DatasetError(
            f"{old.address} has no {PLAN} (it was converted or copied in part), so its inputs are unknown: "
            "rebuild the dataset that it was made from"
        )
    data = read_file(old.address, REMOVED)
    removal = None if data is None else parse_removal(data, REMOVED)
    whole = root if removal is None else root.with_name(f"{root.name}.whole")
    if isinstance(tokenizer, str | Path):
        tokenizer = Tokenizer.load(tokenizer)
    encoder = load_dataset_tokenizer(old.address, old.manifest, tokenizer)
    config = restore_config(plan)
    options = {name: value for name, value in config.list_deciding_settings().items() if value is not None}
    quiet: Any = options | {"report": False, "verbose_level": "ERROR"}
    made: Dataset = prepare(_locate_inputs(plan, inputs), encoder, whole, **quiet)
    if removal is not None:
        made = remove(whole, {each.number: each.reason for each in removal.documents}, root)
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
    local = [Path(file.url).parent for file in plan.inputs if file.local]
    common = os.path.commonpath(local) if local and place is not None else ""
    return [
        str(Path(place) / Path(file.url).relative_to(common))
        if file.local and place is not None
        else file.url
        for file in plan.inputs
    ]
