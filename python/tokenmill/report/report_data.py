"""Everything a dataset's report says, as one object made from manifest, receipts and shards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.datasets.formats.format import find_format, read_items
from tokenmill.datasets.ledger.manifest import load_manifest
from tokenmill.datasets.ledger.plan import load_plan
from tokenmill.datasets.ledger.receipt import load_receipt
from tokenmill.datasets.ledger.record import to_plain
from tokenmill.report.dataset_tokenizer import find_dataset_tokenizer
from tokenmill.report.events import read_events
from tokenmill.report.token_census import take_census
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.plan import Plan, Unit
    from tokenmill.datasets.ledger.receipt import ShardEntry
    from tokenmill.report.events import EventLog

REPORT_VERSION = 1


@dataclass(frozen=True)
class CountedShards:
    """The shards whose tokens are counted, and where: all of a local dataset, some of a remote one."""

    root: Path
    shards: tuple[ShardEntry, ...]
    name: str
    sizes: Mapping[str, int] | None = None  # of the files that are not below the report's own directory


def collect_dataset(
    root: Path, tokenizer: Any = None, counted: CountedShards | None = None
) -> dict[str, Any]:
    """`collect_dataset(DIR)` -> what `report.json` holds."""
    manifest = load_manifest(root)
    log = read_events(root)
    if not isinstance(tokenizer, Tokenizer):
        # A report without the vocabulary shows ids.
        tokenizer = find_dataset_tokenizer(root, manifest)
    account = manifest.account.to_json()
    counted = counted or CountedShards(root, manifest.shards, root.name)
    splits: list[int] = []
    census = take_census(_read_arrays(counted, manifest, splits), manifest.tokenizer.vocab_size)
    if manifest.packing.pad_id is not None:
        census.counts[manifest.packing.pad_id] -= _count_padding(root, manifest, counted)
    return {
        "report_version": REPORT_VERSION,
        "kind": "prepare",
        "name": counted.name,
        "shards": {"all": len(manifest.shards), "counted": len(counted.shards)},
        "content_hash": manifest.content_hash,
        "format": manifest.format,
        "layout": manifest.layout,
        "dtype": manifest.dtype,
        "tokenizer": manifest.tokenizer.to_json(),
        "documents": manifest.documents,
        "tokens": manifest.tokens,
        "rows": manifest.rows,
        "disk_bytes": sum(entry.bytes for shard in manifest.shards for entry in shard.files),
        "account": account,
        "sources": _sum_sources(root, manifest, counted.sizes),
        "scripts": census.count_scripts(tokenizer) if tokenizer else [],
        "lengths": census.count_lengths() | {"context_length": manifest.packing.context_length},
        "packing": _describe_packing(manifest) | {"split_documents": sum(splits) if splits else None},
        "vocabulary": census.describe_vocabulary(tokenizer),
        "rejects": {
            "by_reason": account["rejected"],
            "replaced": account["replaced"],
            "places": to_plain(manifest.rejects),
        },
        "run": _describe_run(log),
        "provenance": {"inputs": to_plain(manifest.inputs), "config": manifest.config},
    }


def _count_padding(root: Path, manifest: Manifest, counted: CountedShards) -> int:
    """Padding in the shards that are counted; if that is all of them, no receipt is needed."""
    if len(counted.shards) == len(manifest.shards):
        return manifest.account.tokens_padding
    receipts = [load_receipt(root, shard.name, shard.unit, counted.sizes) for shard in counted.shards]
    return sum(receipt.account.tokens_padding for receipt in receipts if receipt is not None)


def _read_arrays(counted: CountedShards, manifest: Manifest, splits: list[int]) -> Iterator[tuple[Any, Any]]:
    """Token ids and document lengths, some at a time; a document in rows is as long as its stretches.

    `splits` gets, for each shard of rows, how many documents are in more than one stretch.
    """
    none = np.empty(0, dtype=np.int64)
    for shard in counted.shards:
        lengths = np.zeros(shard.documents, dtype=np.int64)
        stretches = np.zeros(shard.documents, dtype=np.int64)
        for items in read_items(counted.root, manifest, shard):
            if items.segments is not None:
                ends = (items.segments[:, 1] + items.segments[:, 3]).astype(np.int64)
                owners = items.segments[:, 0].astype(np.int64)
                np.maximum.at(lengths, owners, ends)
                stretches += np.bincount(owners, minlength=shard.documents)
            yield items.ids, np.diff(items.offsets) if manifest.layout == "documents" else none
        if manifest.layout == "rows" and find_format(manifest.format).mapped:
            splits.append(int((stretches > 1).sum()))
            yield none, lengths


def _sum_sources(root: Path, manifest: Manifest, sizes: Mapping[str, int] | None) -> list[dict[str, Any]]:
    """Documents, tokens and bytes per input, in plan order; receipts know their unit, the plan its input."""
    plan = load_plan(root)
    names = {unit.id: _name_source(plan, unit) for unit in plan.units} if plan else {}
    sums: dict[str, Counter[str]] = {}
    for shard in manifest.shards:
        receipt = load_receipt(root, shard.name, shard.unit, sizes)
        if receipt is None:
            continue
        sums.setdefault(names.get(shard.unit, "converted"), Counter()).update(
            documents=shard.documents,
            tokens=receipt.account.tokens_encoded,
            text_bytes=receipt.account.text_bytes,
        )
    return [
        {
            "path": path,
            **counts,
            "bytes_per_token": counts["text_bytes"] / counts["tokens"] if counts["tokens"] else 0.0,
        }
        for path, counts in sums.items()
    ]


def _name_source(plan: Plan, unit: Unit) -> str:
    """The input's path; a unit of several small files is named by the first."""
    paths = list(dict.fromkeys(plan.inputs[part.input].url for part in unit.parts))
    if len(paths) == 1:
        return paths[0]
    return f"{len(paths)} small files from {paths[0]} on"


def _describe_packing(manifest: Manifest) -> dict[str, Any]:
    tokens = manifest.account
    stored = tokens.tokens_stored
    return {
        "mode": manifest.packing.mode,
        "context_length": manifest.packing.context_length,
        "overlap": manifest.packing.overlap,
        "written": tokens.tokens_written,
        "repeated": tokens.tokens_repeated,
        "padding": tokens.tokens_padding,
        "dropped": tokens.to_json()["tokens"]["dropped"],
        "fill_percent": 100 * (stored - tokens.tokens_padding) / stored if stored else 100.0,
    }


def _describe_run(log: EventLog) -> dict[str, Any]:
    last = log.starts[-1] if log.starts else {}
    slow = log.find_stragglers()
    return {
        "runs": len(log.starts),
        "restarts": log.restarts,
        "command": last.get("command"),
        "versions": last.get("versions", {}),
        "machine": last.get("machine", {}),
        "budget": last.get("budget", {}),
        "seconds": sum(event.get("seconds", 0.0) for event in log.finishes),
        "throughput": log.measure_throughput(),
        "units": [
            {
                "unit": unit["unit"],
                "source": unit.get("source"),
                "start": unit["seconds_in"] - unit["seconds"],
                "seconds": unit["seconds"],
                "tokens": unit["tokens"],
                "straggler": unit["unit"] in slow,
            }
            for unit in log.units
        ],
        "samples": [
            {"seconds": each["seconds_in"]}
            | {key: each.get(key) for key in ("rss", "cpu_percent", "disk_bytes")}
            for each in log.samples
        ],
    }
