"""How many documents and tokens of a dataset came from each of its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tokenmill.datasets.ledger.lock import SourceCount
from tokenmill.datasets.trace.records import Records

if TYPE_CHECKING:
    from tokenmill.datasets.ledger.plan import Plan
    from tokenmill.datasets.reader.dataset import Dataset


def count_sources(dataset: Dataset, plan: Plan) -> tuple[SourceCount, ...]:
    """The counts of every input, in the order of the plan.

    Exact with provenance. Without it a shard of one input is counted as a whole, padding included, and inputs
    that share a shard are counted together.
    """
    records = Records(dataset)
    totals: dict[str, list[int]] = {}
    for index, shard in enumerate(dataset.manifest.shards):
        parts = plan.units[index].parts
        if records.kept:
            documents, tokens = records.count_parts(index, len(parts))
            for nth, part in enumerate(parts):
                _add(totals, plan.inputs[part.input].url, int(documents[nth]), int(tokens[nth]))
            continue
        urls = list(dict.fromkeys(plan.inputs[part.input].url for part in parts))
        name = urls[0] if len(urls) == 1 else f"{urls[0]} and {len(urls) - 1} more in its shard"
        _add(totals, name, shard.documents, shard.tokens)
    return tuple(SourceCount(url, *counts) for url, counts in totals.items())


def _add(totals: dict[str, list[int]], url: str, documents: int, tokens: int) -> None:
    have = totals.setdefault(url, [0, 0])
    have[:] = np.add(have, [documents, tokens]).tolist()
