"""The report of a dataset in an object store, put beside its shards.

Downloading every token would cost as much as the job did. So tokens are counted in some shards, spread evenly
over the dataset, and the page says in how many; everything else is known from the small files.
"""

from __future__ import annotations

import math
from typing import Any

from tokenmill.base.durable import readable_json
from tokenmill.datasets.store.cache import open_cached
from tokenmill.datasets.store.remote import Remote
from tokenmill.report.report_data import CountedShards, collect_dataset
from tokenmill.report.report_page import render_dataset

MOST_BYTES = 256 << 20


def report_remote(address: str, tokenizer: Any = None) -> str:
    """`report_remote("s3://bucket/out")` -> `"s3://bucket/out/report.html"`."""
    from tokenmill.report.report import REPORT_HTML, REPORT_JSON

    remote = Remote.at(address)
    remote.pull(remote.work)
    manifest, cache = open_cached(remote.address)
    total = sum(entry.bytes for shard in manifest.shards for entry in shard.files)
    # Every n-th, so that together they have at most about so many bytes; at least one.
    chosen = manifest.shards[:: max(1, math.ceil(total / MOST_BYTES))]
    for shard in chosen:
        for entry in shard.files:
            cache.path(entry)
    sizes = {entry.path: entry.bytes for shard in manifest.shards for entry in shard.files}
    counted = CountedShards(cache.root, chosen, remote.address.rpartition("/")[2], sizes)
    data = collect_dataset(remote.work, tokenizer, counted)
    remote.store.replace(REPORT_JSON, readable_json(data))
    remote.store.replace(REPORT_HTML, render_dataset(data).encode("utf-8", "backslashreplace"))
    return f"{remote.address}/{REPORT_HTML}"
