"""Reads `events.jsonl`: when runs started and ended, how long units took, what the machine did."""

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
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.plan import Plan, Unit
    from tokenmill.datasets.ledger.receipt import ShardEntry


BUCKETS = 60  # points of the throughput curve
STRAGGLER = 3.0  # times the median unit


@dataclass
class EventLog:
    """The events of all runs on one output directory, on one clock that starts with the first."""

    starts: list[dict[str, Any]] = field(default_factory=list)
    units: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    finishes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def restarts(self) -> list[float]:
        """Seconds at which a later run resumed."""
        return [event["seconds_in"] for event in self.starts[1:]]

    def measure_throughput(self) -> list[dict[str, float]]:
        """Bytes and tokens per second over time: each unit's work is spread over the time it took."""
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

    def find_stragglers(self) -> set[int]:
        """Units that took more than three times the median."""
        times = sorted(unit["seconds"] for unit in self.units)
        limit = STRAGGLER * times[len(times) // 2] if times else 0.0
        return {unit["unit"] for unit in self.units if unit["seconds"] > limit}


def read_events(root: Path) -> EventLog:
    """The log of a directory; empty where there is none. A last line that a kill cut short is skipped."""
    log = EventLog()
    lists = {"start": log.starts, "unit": log.units, "sample": log.samples, "finish": log.finishes}
    zero: datetime | None = None
    for line in _read_lines(root):
        try:
            event = json.loads(line)
            at = datetime.fromisoformat(event["at"])
        except (ValueError, KeyError, TypeError):
            continue
        zero = zero or at
        event["seconds_in"] = (at - zero).total_seconds()
        lists.get(event.get("event"), []).append(event)
    return log


def _read_lines(root: Path) -> list[str]:
    try:
        return (root / EVENTS).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


CHUNK = 1 << 24  # tokens counted at a time
TOP = 40


@dataclass(frozen=True)
class Census:
    """How often each id occurs, and how many documents have each length class (powers of two)."""

    counts: np.ndarray[Any, np.dtype[np.int64]]
    length_classes: np.ndarray[Any, np.dtype[np.int64]]
    longest: int
    length_sum: int

    def describe_vocabulary(self, tokenizer: Tokenizer | None) -> dict[str, Any]:
        """Used and unused ids, the most frequent tokens, and the rank-frequency curve at about 60 ranks."""
        order = np.argsort(-self.counts, kind="stable")
        used = int((self.counts > 0).sum())
        ranks = sorted({int(rank) for rank in np.geomspace(1, max(used, 1), 60)}) if used else []
        return {
            "size": len(self.counts),
            "used": used,
            "unused": len(self.counts) - used,
            "unused_sample": [_show(tokenizer, int(i)) for i in np.flatnonzero(self.counts == 0)[:TOP]],
            "top": [
                {"id": int(i), "token": _show(tokenizer, int(i)), "count": int(self.counts[i])}
                for i in order[:TOP]
                if self.counts[i]
            ],
            "rank_frequency": [{"rank": rank, "count": int(self.counts[order[rank - 1]])} for rank in ranks],
        }

    def count_scripts(self, tokenizer: Tokenizer) -> list[dict[str, Any]]:
        """Tokens, bytes and bytes per token by script, the script with most bytes first."""
        used = np.flatnonzero(self.counts).tolist()
        rows = count_scripts((tokenizer.token_bytes(token), int(self.counts[token])) for token in used)
        return [row | {"bytes_per_token": row["bytes"] / row["tokens"]} for row in rows]

    def count_lengths(self) -> dict[str, Any]:
        """Documents by length class, with cumulative shares, the longest and the mean."""
        total = int(self.length_classes.sum())
        rows, seen = [], 0
        for power, documents in enumerate(self.length_classes.tolist()):
            seen += documents
            if documents:
                rows.append(
                    {
                        "from": 0 if power == 0 else 1 << (power - 1),
                        "to": (1 << power) - 1,
                        "documents": documents,
                        "cumulated_percent": 100 * seen / total,
                    }
                )
        return {
            "classes": rows,
            "documents": total,
            "longest": self.longest,
            "mean": self.length_sum / total if total else 0.0,
        }


def take_census(
    parts: Iterable[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]], vocab_size: int
) -> Census:
    """Count ids and lengths, which come as pairs of arrays, some at a time."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    classes = np.zeros(64, dtype=np.int64)
    longest = length_sum = 0
    for tokens, lengths in parts:
        for start in range(0, len(tokens), CHUNK):
            counts += np.bincount(tokens[start : start + CHUNK], minlength=vocab_size)[:vocab_size]
        if len(lengths):
            # The class of n is its bit length: 0, 1, 2-3, 4-7, … so that a class is a step of a log axis.
            bits = np.frexp(lengths.astype(np.float64))[1]
            classes += np.bincount(bits, minlength=64)[:64]
            longest = max(longest, int(lengths.max()))
            length_sum += int(lengths.sum(dtype=np.int64))
    return Census(counts, classes, longest, length_sum)


def _show(tokenizer: Tokenizer | None, token: int) -> str:
    if tokenizer is None:
        return f"#{token}"
    try:
        return tokenizer.token_bytes(token).decode("utf-8", "backslashreplace")
    except (KeyError, ValueError, IndexError):
        return f"#{token}"


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
        "tokenizer": to_plain(manifest.tokenizer),
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
