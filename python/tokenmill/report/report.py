"""Write `report.json` and `report.html` into the directory of a finished run."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

from tokenmill.base.durable import publish_bytes, readable_json
from tokenmill.datasets.ledger.manifest import PLAN
from tokenmill.datasets.remote import Remote, open_cached
from tokenmill.errors import DatasetError, TokenmillError
from tokenmill.report.dataset import CountedShards, collect_dataset, render_dataset
from tokenmill.report.training import collect_training, render_training
from tokenmill.sources.stores import is_remote
from tokenmill.training.merging import TRAINING

logger = logging.getLogger("tokenmill.report")
REPORT_JSON, REPORT_HTML = "report.json", "report.html"
MOST_BYTES = 256 << 20  # read of a dataset in an object store


def write_report(directory: str | Path, tokenizer: Any = None) -> Path:
    """Write both files of a local run and return the path of the page.

    `tokenizer` is that of the dataset, if the caller has loaded it. Raise `DatasetError` if the directory
    holds neither a dataset nor a trained tokenizer.
    """
    root = Path(directory)
    if not root.is_dir():
        raise DatasetError(f"{root}: no such directory; give the output directory of a prepare or train run")
    if (root / TRAINING).exists() and not (root / PLAN).exists():
        data = collect_training(root)
        html = render_training(data)
    else:
        data = collect_dataset(root, tokenizer)
        html = render_dataset(data)
    publish_bytes(root / REPORT_JSON, readable_json(data))
    publish_bytes(root / REPORT_HTML, html.encode("utf-8", "backslashreplace"))
    return root / REPORT_HTML


def publish_report(location: str | Path, tokenizer: Any = None) -> str:
    """Write the report of a directory or of a dataset in an object store; return its address."""
    if is_remote(location):
        return report_remote(str(location), tokenizer)
    return str(write_report(location, tokenizer))


def report_if_possible(location: str | Path, tokenizer: Any = None) -> None:
    """Write the report of a finished job, or log a warning if that fails."""
    try:
        publish_report(location, tokenizer)
    except (OSError, TokenmillError) as error:
        logger.warning("no report was written: %s", error)


def report_remote(address: str, tokenizer: Any = None) -> str:
    """Write the report of a dataset in an object store; return the address of its page."""
    remote = Remote(address)
    remote.pull(remote.work)
    manifest, cache = open_cached(remote.address)
    total = sum(entry.bytes for shard in manifest.shards for entry in shard.files)
    # Every n-th shard, about `MOST_BYTES` in total and at least one shard.
    chosen = manifest.shards[:: max(1, math.ceil(total / MOST_BYTES))]
    for shard in chosen:
        for entry in shard.files:
            cache.path(entry)
    sizes = {entry.path: entry.bytes for shard in manifest.shards for entry in shard.files}
    counted = CountedShards(cache.root, chosen, remote.address.rpartition("/")[2], sizes)
    data = collect_dataset(remote.work, tokenizer, counted)
    remote.replace(REPORT_JSON, readable_json(data))
    remote.replace(REPORT_HTML, render_dataset(data).encode("utf-8", "backslashreplace"))
    return f"{remote.address}/{REPORT_HTML}"
