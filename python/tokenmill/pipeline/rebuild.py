"""`tokenmill dataset rebuild`: prepare a dataset again from its own settings and compare the hashes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.datasets.dataset import open_dataset
from tokenmill.datasets.ledger.manifest import PLAN
from tokenmill.datasets.ledger.removal import REMOVED, parse_removal
from tokenmill.datasets.records import Records
from tokenmill.datasets.store import read_file
from tokenmill.errors import DatasetError
from tokenmill.pipeline.prepare import prepare
from tokenmill.pipeline.remove import remove
from tokenmill.pipeline.verify import restore_config
from tokenmill.report.dataset_tokenizer import load_dataset_tokenizer
from tokenmill.sources.model import MEMORY
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.datasets.dataset import Dataset
    from tokenmill.datasets.ledger.plan import Plan


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
