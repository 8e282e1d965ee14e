"""Collect the data of a dataset's report from its manifest, its shards and the log of its runs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.durable import EVENTS
from tokenmill.base.records import to_plain
from tokenmill.datasets.formats.format import find_format, read_items
from tokenmill.datasets.ledger.manifest import load_manifest
from tokenmill.datasets.ledger.plan import load_plan
from tokenmill.datasets.ledger.receipt import load_receipt
from tokenmill.report.dataset_tokenizer import find_dataset_tokenizer
from tokenmill.report.vocabulary import count_scripts
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.plan import Plan, Unit
    from tokenmill.datasets.ledger.receipt import ShardEntry


BUCKETS = 60  # points of the throughput curve
STRAGGLER = 3.0  # times the median unit
CHUNK = 1 << 24  # tokens counted at a time
TOP = 40
LENGTH_CLASSES = 64
REPORT_VERSION = 1


@dataclass
class EventLog:
    """The events of all runs on one output directory, with seconds since the first."""

    starts: list[dict[str, Any]] = field(default_factory=list)
    units: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    finishes: list[dict[str, Any]] = field(default_factory=list)

    def measure_throughput(self) -> list[dict[str, float]]:
        """Return bytes and tokens per second over time; the work of a unit is spread over its duration."""
        if not self.units:
            return []
        end = max(unit["seconds_in"] for unit in self.units)
        width = max(end / BUCKETS, 1e-3)
        points = [
            {"seconds": (k + 0.5) * width, "bytes_per_second": 0.0, "tokens_per_second": 0.0}
            for k in range(BUCKETS)
        ]
        for unit in self.units:
            stop, took = unit["seconds_in"], max(unit["seconds"], 1e-6)
            for k in range(max(0, int((stop - took) / width)), min(BUCKETS - 1, int(stop / width)) + 1):
                overlap = min(stop, (k + 1) * width) - max(stop - took, k * width)
                share = max(overlap, 0.0) / took / width
                points[k]["bytes_per_second"] += unit["bytes"] * share
                points[k]["tokens_per_second"] += unit["tokens"] * share
        return points


def read_events(root: Path) -> EventLog:
    """Read the log of a directory, empty if there is none. Skip a last line that a kill cut short."""
    log = EventLog()
    lists = {"start": log.starts, "unit": log.units, "sample": log.samples, "finish": log.finishes}
    path, zero = root / EVENTS, None
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ()
    for line in lines:
        try:
            event = json.loads(line)
            at = datetime.fromisoformat(event["at"])
        except (ValueError, KeyError, TypeError):
            continue
        zero = zero or at
        event["seconds_in"] = (at - zero).total_seconds()
        lists.get(event.get("event"), []).append(event)
    return log


class Census:
    """How often each id occurs, how many documents have each length, and how many are split over rows."""

    def __init__(self, vocab_size: int) -> None:
        self.counts = np.zeros(vocab_size, dtype=np.int64)
        # By bit length (0, 1, 2-3, 4-7, …), so that each class is a step of a logarithmic axis.
        self.classes = np.zeros(LENGTH_CLASSES, dtype=np.int64)
        self.longest = self.length_sum = 0
        self.split_documents: int | None = None

    def add_shard(self, root: Path, manifest: Manifest, shard: ShardEntry) -> None:
        """Count a shard; a document in rows is as long as its segments."""
        in_rows = np.zeros(shard.documents, dtype=np.int64)
        segments = np.zeros(shard.documents, dtype=np.int64)
        for items in read_items(root, manifest, shard):
            for start in range(0, len(items.ids), CHUNK):
                found = np.bincount(items.ids[start : start + CHUNK], minlength=len(self.counts))
                self.counts += found[: len(self.counts)]
            if items.segments is not None:
                ends = (items.segments[:, 1] + items.segments[:, 3]).astype(np.int64)
                owners = items.segments[:, 0].astype(np.int64)
                np.maximum.at(in_rows, owners, ends)
                segments += np.bincount(owners, minlength=shard.documents)
            if manifest.layout == "documents":
                self._add_lengths(np.diff(items.offsets))
        if manifest.layout == "rows" and find_format(manifest.format).mapped:
            self.split_documents = (self.split_documents or 0) + int((segments > 1).sum())
            self._add_lengths(in_rows)

    def _add_lengths(self, lengths: NDArray[np.int64]) -> None:
        bits = np.frexp(lengths.astype(np.float64))[1]
        self.classes += np.bincount(bits, minlength=LENGTH_CLASSES)[:LENGTH_CLASSES]
        self.longest = max(self.longest, int(lengths.max(initial=0)))
        self.length_sum += int(lengths.sum(dtype=np.int64))

    def describe_vocabulary(self, tokenizer: Tokenizer | None) -> dict[str, Any]:
        """Return used and unused ids, the most frequent tokens, and the counts of about 60 ranks."""
        order = np.argsort(-self.counts, kind="stable")
        used = int((self.counts > 0).sum())
        ranks = sorted({int(rank) for rank in np.geomspace(1, used, 60)}) if used else []
        unused = np.flatnonzero(self.counts == 0)[:TOP].tolist()
        return {
            "size": len(self.counts),
            "used": used,
            "unused": len(self.counts) - used,
            "unused_sample": [_spell(tokenizer, token) for token in unused],
            "top": [
                {"id": token, "token": _spell(tokenizer, token), "count": int(self.counts[token])}
                for token in order[: min(TOP, used)].tolist()
            ],
            "rank_frequency": [{"rank": rank, "count": int(self.counts[order[rank - 1]])} for rank in ranks],
        }

    def count_scripts(self, tokenizer: Tokenizer) -> list[dict[str, Any]]:
        """Return tokens, bytes and bytes per token by script, the script with most bytes first."""
        used = np.flatnonzero(self.counts).tolist()
        rows = count_scripts((tokenizer.token_bytes(token), int(self.counts[token])) for token in used)
        return [row | {"bytes_per_token": row["bytes"] / row["tokens"]} for row in rows]

    def describe_lengths(self) -> dict[str, Any]:
        """Return documents by length class with cumulative shares, the longest and the mean."""
        total, seen = int(self.classes.sum()), np.cumsum(self.classes)
        rows = [
            {
                "from": (1 << power) // 2,
                "to": (1 << power) - 1,
                "documents": int(self.classes[power]),
                "cumulated_percent": 100 * int(seen[power]) / total,
            }
            for power in np.flatnonzero(self.classes).tolist()
        ]
        mean = self.length_sum / max(total, 1)
        return {"classes": rows, "documents": total, "longest": self.longest, "mean": mean}


def _spell(tokenizer: Tokenizer | None, token: int) -> str:
    if tokenizer is None:
        return f"#{token}"
    try:
        return tokenizer.token_bytes(token).decode("utf-8", "backslashreplace")
    except (KeyError, ValueError, IndexError):
        return f"#{token}"


@dataclass(frozen=True)
class CountedShards:
    """The shards whose tokens are counted: all of a local dataset, some of a remote one."""

    root: Path
    shards: tuple[ShardEntry, ...]
    name: str
    sizes: Mapping[str, int] | None = None  # of the files that are not below the report's own directory


def collect_dataset(
    root: Path, tokenizer: Any = None, counted: CountedShards | None = None
) -> dict[str, Any]:
    """Return the data of `report.json` for a dataset."""
    manifest = load_manifest(root)
    if not isinstance(tokenizer, Tokenizer):
        # A report without the vocabulary shows ids.
        tokenizer = find_dataset_tokenizer(root, manifest)
    account = manifest.account.to_json()
    counted = counted or CountedShards(root, manifest.shards, root.name)
    census = Census(manifest.tokenizer.vocab_size)
    for shard in counted.shards:
        census.add_shard(counted.root, manifest, shard)
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
        "tokenizer": to_plain(manifest.tokenizer),
        "documents": manifest.documents,
        "tokens": manifest.tokens,
        "rows": manifest.rows,
        "disk_bytes": sum(entry.bytes for shard in manifest.shards for entry in shard.files),
        "account": account,
        "sources": _sum_sources(root, manifest, counted.sizes),
        "scripts": census.count_scripts(tokenizer) if tokenizer else [],
        "lengths": census.describe_lengths() | {"context_length": manifest.packing.context_length},
        "packing": _describe_packing(manifest) | {"split_documents": census.split_documents},
        "vocabulary": census.describe_vocabulary(tokenizer),
        "rejects": {
            "by_reason": account["rejected"],
            "replaced": account["replaced"],
            "places": to_plain(manifest.rejects),
        },
        "run": _describe_run(read_events(root)),
        "provenance": {"inputs": to_plain(manifest.inputs), "config": manifest.config},
    }


def _count_padding(root: Path, manifest: Manifest, counted: CountedShards) -> int:
    """Return the padding in the shards that are counted; all of them need no receipts."""
    if len(counted.shards) == len(manifest.shards):
        return manifest.account.tokens_padding
    receipts = [load_receipt(root, shard.name, shard.unit, counted.sizes) for shard in counted.shards]
    return sum(receipt.account.tokens_padding for receipt in receipts if receipt is not None)


def _sum_sources(root: Path, manifest: Manifest, sizes: Mapping[str, int] | None) -> list[dict[str, Any]]:
    """Return documents, tokens and bytes per input, in plan order."""
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
    rows: list[dict[str, Any]] = [{"path": path, **counts} for path, counts in sums.items()]
    return [row | {"bytes_per_token": row["text_bytes"] / max(row["tokens"], 1)} for row in rows]


def _name_source(plan: Plan, unit: Unit) -> str:
    """Return the path of the input of a unit, or a name with the first of several small files."""
    first, *others = dict.fromkeys(plan.inputs[part.input].url for part in unit.parts)
    return f"{len(others) + 1} small files from {first} on" if others else first


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
    times = sorted(unit["seconds"] for unit in log.units)
    slow = STRAGGLER * times[len(times) // 2] if times else 0.0
    return {
        "runs": len(log.starts),
        "restarts": [event["seconds_in"] for event in log.starts[1:]],
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
                "straggler": unit["seconds"] > slow,
            }
            for unit in log.units
        ],
        "samples": [
            {"seconds": each["seconds_in"]}
            | {key: each.get(key) for key in ("rss", "cpu_percent", "disk_bytes")}
            for each in log.samples
        ],
    }
