"""Report of a dataset: collect data from the manifest, the shards and the event log, and render the page."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.durable import EVENTS
from tokenmill.base.records import to_plain
from tokenmill.datasets.dataset import open_dataset
from tokenmill.datasets.formats.format import read_items
from tokenmill.datasets.ledger.manifest import Manifest, load_manifest
from tokenmill.datasets.ledger.plan import load_plan
from tokenmill.datasets.ledger.receipt import ShardEntry, load_receipt
from tokenmill.datasets.records import PROVENANCE
from tokenmill.report.dataset_tokenizer import find_dataset_tokenizer
from tokenmill.report.page import (
    Axis,
    Box,
    cards,
    code,
    draw_plot,
    format_number,
    grid,
    page,
    paragraph,
    section,
    table,
)
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.card import describe_counts
from tokenmill.vocab.scripts import count_scripts

BUCKETS = 60  # points of the throughput curve
STRAGGLER = 3.0  # times the median unit
CHUNK = 1 << 24  # tokens counted at a time
LENGTH_CLASSES = 64
MOST_UNITS = 100  # a timeline with more rows cannot be read; the longest are shown
MOST_SOURCES = 30


def read_events(root: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the events of all runs on a directory by kind, with seconds since the first.

    Skip invalid lines, such as a truncated last line.
    """
    found: dict[str, list[dict[str, Any]]] = {"start": [], "unit": [], "sample": [], "finish": []}
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
        found.get(event.get("event"), []).append(event)
    return found


def measure_throughput(units: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Return bytes and tokens per second over time; the work of a unit is spread over its duration."""
    if not units:
        return []
    width = max(max(unit["seconds_in"] for unit in units) / BUCKETS, 1e-3)
    edges = np.arange(BUCKETS + 1) * width
    rates = np.zeros((2, BUCKETS))
    for unit in units:
        stop, took = unit["seconds_in"], max(unit["seconds"], 1e-6)
        overlap = np.minimum(stop, edges[1:]) - np.maximum(stop - took, edges[:-1])
        share = np.maximum(overlap, 0.0) / took / width
        rates += share * np.array([[unit["bytes"]], [unit["tokens"]]])
    return [
        {"seconds": (k + 0.5) * width, "bytes_per_second": size, "tokens_per_second": tokens}
        for k, (size, tokens) in enumerate(rates.T.tolist())
    ]


@dataclass(frozen=True)
class CountedShards:
    """The shards whose tokens are counted: all of a local dataset, some of a remote one."""

    root: Path
    shards: tuple[ShardEntry, ...]
    name: str
    sizes: Mapping[str, int] | None = None  # of the files that are not below the report's own directory


def _count_shards(manifest: Manifest, counted: CountedShards) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Return the count of each id, and document counts by length, which are empty for a layout of rows."""
    counts = np.zeros(manifest.tokenizer.vocab_size, dtype=np.int64)
    # By bit length (0, 1, 2-3, 4-7, …), so that each class is twice as wide as the one before.
    classes = np.zeros(LENGTH_CLASSES, dtype=np.int64)
    longest = total = 0
    for shard in counted.shards:
        for items in read_items(counted.root, manifest, shard):
            for start in range(0, len(items.ids), CHUNK):
                counts += np.bincount(items.ids[start : start + CHUNK], minlength=len(counts))[: len(counts)]
            if manifest.layout == "documents":
                lengths = np.diff(items.offsets)
                bits = np.frexp(lengths.astype(np.float64))[1]
                classes += np.bincount(bits, minlength=LENGTH_CLASSES)[:LENGTH_CLASSES]
                longest = max(longest, int(lengths.max(initial=0)))
                total += int(lengths.sum(dtype=np.int64))
    documents, seen = int(classes.sum()), np.cumsum(classes)
    rows = [
        {
            "from": (1 << power) // 2,
            "to": (1 << power) - 1,
            "documents": int(classes[power]),
            "cumulated_percent": 100 * int(seen[power]) / documents,
        }
        for power in np.flatnonzero(classes).tolist()
    ]
    mean = total / max(documents, 1)
    return counts, {"classes": rows, "documents": documents, "longest": longest, "mean": mean}


def collect_dataset(
    root: Path, tokenizer: Any = None, counted: CountedShards | None = None
) -> dict[str, Any]:
    """Return the data of `report.json` for a dataset."""
    manifest = load_manifest(root)
    if not isinstance(tokenizer, Tokenizer):
        # Without a tokenizer the report shows ids.
        tokenizer = find_dataset_tokenizer(root, manifest)
    account = manifest.account.to_json()
    counted = counted or CountedShards(root, manifest.shards, root.name)
    counts, lengths = _count_shards(manifest, counted)
    if manifest.packing.pad_id is not None:
        counts[manifest.packing.pad_id] -= _count_padding(root, manifest, counted)
    used = np.flatnonzero(counts).tolist() if tokenizer else ()
    scripts = count_scripts((tokenizer.token_bytes(token), int(counts[token])) for token in used)
    return {
        "report_version": 1,
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
        "sources": _sum_sources(root, manifest, counted),
        "scripts": scripts,
        "lengths": lengths | {"context_length": manifest.packing.context_length},
        "packing": _describe_packing(root, manifest, remote=counted.sizes is not None),
        "vocabulary": describe_counts(counts, tokenizer),
        "rejects": {
            "by_reason": account["rejected"],
            "replaced": account["replaced"],
            "places": to_plain(manifest.rejects),
        },
        "run": _describe_run(read_events(root)),
        "provenance": {"inputs": to_plain(manifest.inputs), "config": manifest.config},
    }


def _describe_packing(root: Path, manifest: Manifest, *, remote: bool) -> dict[str, Any]:
    """Return the token counts of the rows in the files, or of those of the default view."""
    account, view = manifest.account.to_json()["tokens"], manifest.packing.view
    found = {key: account[key] for key in ("written", "repeated", "padding", "dropped")}
    if view is not None and manifest.layout == "documents" and not remote:
        made = open_dataset(root).rows().account()
        left = made.pop("dropped")
        found |= made | {"dropped": account["dropped"] | ({"the default view": left} if left else {})}
    stored = found["written"] + found["repeated"] + found["padding"]
    return found | {
        "mode": manifest.packing.mode,
        "context_length": manifest.packing.context_length,
        "overlap": 0 if view is None else view.overlap,
        "stored": stored,
        "fill_percent": 100 * (stored - found["padding"]) / max(stored, 1),
    }


def _count_padding(root: Path, manifest: Manifest, counted: CountedShards) -> int:
    """Return the padding in the counted shards; receipts are read only for a subset of the shards."""
    if len(counted.shards) == len(manifest.shards):
        return manifest.account.tokens_padding
    receipts = [load_receipt(root, shard.name, shard.unit, counted.sizes) for shard in counted.shards]
    return sum(receipt.account.tokens_padding for receipt in receipts if receipt is not None)


def _sum_sources(root: Path, manifest: Manifest, counted: CountedShards) -> list[dict[str, Any]]:
    """Return documents, tokens and bytes per input in plan order; exact by file with provenance.

    Without provenance, small files that share a unit are one line.
    """
    plan = load_plan(root)
    units = {unit.id: unit for unit in plan.units} if plan else {}
    sums: dict[str, Counter[str]] = {}
    for shard in manifest.shards:
        receipt = load_receipt(root, shard.name, shard.unit, counted.sizes)
        unit = units.get(shard.unit)
        urls = [plan.inputs[part.input].url for part in unit.parts] if plan and unit else ["converted"]
        origins = next((counted.root / each.path for each in shard.files if each.role == PROVENANCE), None)
        if len(set(urls)) > 1 and origins is not None and origins.exists():
            for part, documents, tokens in _sum_parts(origins):
                sums.setdefault(urls[part], Counter()).update(documents=documents, tokens=tokens)
        elif receipt is not None:
            first, *others = dict.fromkeys(urls)
            name = f"{len(others) + 1} small files from {first} on" if others else first
            sums.setdefault(name, Counter()).update(
                documents=shard.documents,
                tokens=receipt.account.tokens_encoded,
                text_bytes=receipt.account.text_bytes,
            )
    return [
        {"path": path, **counts, "bytes_per_token": counts["text_bytes"] / max(counts["tokens"], 1) or None}
        for path, counts in sums.items()
    ]


def _sum_parts(path: Path) -> Iterable[tuple[int, int, int]]:
    """Return the documents and tokens of each part of a unit."""
    from tokenmill.datasets.ledger.provenance import read_origins  # imports Arrow

    with read_origins(path) as origins:
        parts, lengths = (origins[name].to_numpy() for name in ("part", "tokens"))
        tokens = np.bincount(parts, weights=lengths).astype(np.int64)
        return [(part, int((parts == part).sum()), int(tokens[part])) for part in np.unique(parts).tolist()]


def _describe_run(log: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    starts, units = log["start"], log["unit"]
    last = starts[-1] if starts else {}
    times = sorted(unit["seconds"] for unit in units)
    slow = STRAGGLER * times[len(times) // 2] if times else 0.0
    return {
        "runs": len(starts),
        "restarts": [event["seconds_in"] for event in starts[1:]],
        "command": last.get("command"),
        **{key: last.get(key, {}) for key in ("versions", "machine", "budget")},
        "seconds": sum(event.get("seconds", 0.0) for event in log["finish"]),
        "throughput": measure_throughput(units),
        "units": [
            {
                "unit": unit["unit"],
                "source": unit.get("source"),
                "start": unit["seconds_in"] - unit["seconds"],
                "seconds": unit["seconds"],
                "tokens": unit["tokens"],
                "straggler": unit["seconds"] > slow,
            }
            for unit in units
        ],
        "samples": [
            {"seconds": each["seconds_in"]}
            | {key: each.get(key) for key in ("rss", "cpu_percent", "disk_bytes")}
            for each in log["sample"]
        ],
    }


def render_dataset(data: dict[str, Any]) -> str:
    """Return the HTML of the report of a dataset; every number is in `report.json`."""
    account, vocabulary, shards, run = data["account"], data["vocabulary"], data["shards"], data["run"]
    top = cards(
        {
            "documents": f"{data['documents']:,}",
            "tokens": f"{data['tokens']:,}",
            "bytes per token": f"{account['text_bytes'] / max(account['tokens']['encoded'], 1):.3f}",
            "on disk": f"{format_number(data['disk_bytes'])}B",
            "vocabulary used": f"{100 * vocabulary['used'] / max(vocabulary['size'], 1):.1f} %",
            "seconds": f"{run['seconds']:,.1f}",
        }
    )
    parts = [
        _render_account(account),
        _render_sources(data["sources"]),
        _render_lengths(data["lengths"]),
        _render_packing(data["packing"]),
        section(
            "Bytes per token by script",
            table(
                ("script", "tokens", "bytes", "bytes per token"),
                [list(row.values()) for row in data["scripts"]],
                bar=3,
            ),
        ),
        _render_vocabulary(vocabulary),
        _render_rejects(data["rejects"], account["documents"]["read"]),
        _render_throughput(run),
        _render_resources(run),
        _render_units(run["units"]),
        _render_provenance(data),
    ]
    lead = f"{data['format']}, {data['layout']}, {data['dtype']}; tokenizer {data['tokenizer']['name']}"
    if shards["counted"] != shards["all"]:
        lead += (
            f". Vocabulary, scripts, lengths and split documents were counted in {shards['counted']:,} of "
            f"{shards['all']:,} shards, spread over the dataset; all other figures are for the whole dataset"
        )
    return page(f"Report of {data['name']}", lead, [top, grid(*parts)])


def _render_account(account: dict[str, Any]) -> str:
    tokens, documents, learned = account["tokens"], account["documents"], account.get("learned")
    rows = [(f"documents {name}", documents[name]) for name in ("read", "written")]
    rows += [(f"documents dropped: {reason}", count) for reason, count in documents["dropped"].items()]
    names = ("read", "encoded", "added", "written", "repeated", "padding", "stored")
    rows += [(f"tokens {name}", tokens[name]) for name in names]
    rows += [(f"tokens dropped: {reason}", count) for reason, count in tokens["dropped"].items()]
    rows += [("special-token strings inside documents", account["special_strings"])]
    words = "Read = written + dropped, for documents and for tokens."
    if learned is not None:
        rows += [(f"trained tokens {name}", learned[name]) for name in ("read", "written", "repeated")]
        rows += [(f"trained tokens dropped: {reason}", count) for reason, count in learned["dropped"].items()]
        rows += [(f"trained tokens of {role}", count) for role, count in learned["roles"].items()]
        share = learned["written"] / max(tokens["written"], 1)
        words += f" Of all tokens written, {share:.1%} are trained on."
    return section("The account", table(("what", "count"), rows), paragraph(words, soft=True))


def _render_sources(sources: list[dict[str, Any]]) -> str:
    shown = sorted(sources, key=lambda s: -s["tokens"])[:MOST_SOURCES]
    rows = [
        (s["path"].rpartition("/")[2], s["documents"], s["tokens"], s["bytes_per_token"] or "") for s in shown
    ]
    paths = table(("path",), [[s["path"]] for s in shown], folded="Whole paths")
    return section("Sources", table(("file", "documents", "tokens", "bytes/token"), rows, bar=2), paths)


def _render_lengths(lengths: dict[str, Any]) -> str:
    rows = [
        (f"{c['from']:,} to {c['to']:,}", c["documents"], f"{c['cumulated_percent']:.1f} %")
        for c in lengths["classes"]
    ]
    words = f"Mean {lengths['mean']:,.1f} tokens, longest {lengths['longest']:,}."
    if lengths["context_length"]:
        words += f" The context length is {lengths['context_length']:,}."
    shown = table(("tokens", "documents", "cumulative"), rows, bar=1)
    return section("Document lengths", shown, paragraph(words, soft=True)) if rows else ""


def _render_packing(packing: dict[str, Any]) -> str:
    rows = [("written once", packing["written"]), ("repeated by overlap", packing["repeated"])]
    rows += [("padding", packing["padding"])]
    rows += [(f"dropped: {reason}", count) for reason, count in packing["dropped"].items()]
    words = f"Mode {packing['mode']}"
    if packing["context_length"]:
        words += f", context length {packing['context_length']:,}, overlap {packing['overlap']:,}"
    words += f"; {packing['fill_percent']:.2f} % of the {packing['stored']:,} tokens in rows are not padding."
    return section("Packing", table(("tokens", "count"), rows, bar=1), paragraph(words, soft=True))


def _render_vocabulary(vocabulary: dict[str, Any]) -> str:
    curve = [(p["rank"], p["count"]) for p in vocabulary["rank_frequency"]]
    words = f"{vocabulary['used']:,} of {vocabulary['size']:,} ids occur; {vocabulary['unused']:,} never do."
    if vocabulary["unused"]:
        words += " For example: " + "  ".join(map(repr, vocabulary["unused_sample"][:20]))
    top = [(repr(t["token"]), t["id"], t["count"]) for t in vocabulary["top"]]
    x = Axis.over("rank", [rank for rank, _ in curve], log=True)
    y = Axis.over("occurrences", [count for _, count in curve], log=True)
    plot = draw_plot(x, y, lines={"rank and frequency": curve}) if curve else ""
    folded = table(("token", "id", "count"), top, folded="The most frequent tokens")
    return section("Vocabulary", plot, paragraph(words, soft=True), folded)


def _render_rejects(rejects: dict[str, Any], read: int) -> str:
    rows = [("rejected", reason, count) for reason, count in rejects["by_reason"].items()]
    rows += [("replaced", reason, count) for reason, count in rejects["replaced"].items()]
    if not rows:
        return section("Rejects", paragraph(f"None: all {read:,} records could be read as they were."))
    places = [(p["reason"], p["place"], p["sample"]) for p in rejects["places"]]
    return section(
        "Rejects",
        table(("what", "reason", "records"), rows),
        table(("reason", "place", "begins with"), places, folded="The first places"),
    )


def _render_throughput(run: dict[str, Any]) -> str:
    rows = [(p["seconds"], p["bytes_per_second"] / 1e6, p["tokens_per_second"]) for p in run["throughput"]]
    if not rows:
        return ""
    chart = draw_plot(
        Axis.over("seconds", [row[0] for row in rows], zero=True),
        Axis.over("MB of input per second", [row[1] for row in rows], zero=True),
        lines={"MB/s": [row[:2] for row in rows]},
        marks=[(at, "restart") for at in run["restarts"]],
    )
    words = f"{run['runs']} run(s), {len(run['restarts'])} restart(s)."
    numbers = table(("seconds", "MB/s", "tokens/s"), rows, folded="As a table")
    return section("Throughput", chart, paragraph(words, soft=True), numbers)


def _render_resources(run: dict[str, Any]) -> str:
    samples = [s for s in run["samples"] if s["rss"] is not None]
    if len(samples) < 2:
        return ""  # the run was too short for a curve
    peak, budget = max(s["rss"] for s in samples), run["budget"].get("memory")
    x = Axis.over("seconds", [s["seconds"] for s in samples], zero=True)
    lines = {"resident memory": [(s["seconds"], s["rss"] / 1e6) for s in samples]}
    words = f"Peak {format_number(peak)}B of memory"
    if budget:
        lines["budget"] = [(x.low, budget / 1e6), (x.high, budget / 1e6)]
        words += f" against a budget of {format_number(budget)}B"
    y = Axis.over("MB of memory", [peak / 1e6, (budget or 0) / 1e6], zero=True)
    rows = [(s["seconds"], s["rss"], s["cpu_percent"] or 0.0, s["disk_bytes"] or 0) for s in samples]
    numbers = table(("seconds", "memory", "CPU %", "bytes written"), rows, folded="As a table")
    return section(
        "Memory, CPU and disk", draw_plot(x, y, lines=lines), paragraph(f"{words}.", soft=True), numbers
    )


def _render_units(units: list[dict[str, Any]]) -> str:
    if len(units) < 2:
        return ""
    longest = sorted(units, key=lambda u: -u["seconds"])[:MOST_UNITS]
    shown = sorted(longest, key=lambda u: (u["start"], u["unit"]))
    height = max(len(shown), 16)
    boxes: list[Box] = []
    for row, unit in enumerate(shown):
        end, top = unit["start"] + unit["seconds"], height - row
        text, style = f"unit {unit['unit']}: {unit['seconds']:.2f} s", "s1" if unit["straggler"] else "s0"
        boxes.append((unit["start"], end, top - 0.8, top, text, style))
    x = Axis.over("seconds", [edge for box in boxes for edge in box[:2]], zero=True)
    slow = sum(u["straggler"] for u in units)
    words = f"{len(units):,} units; {slow} took more than three times the median"
    words += " (shown in the second colour)." if slow else "."
    rows = [(u["unit"], u["source"] or "", u["start"], u["seconds"], u["tokens"]) for u in shown]
    numbers = table(("unit", "source", "start", "seconds", "tokens"), rows, folded="As a table")
    chart = draw_plot(x, Axis("", 0, height), boxes=boxes)
    return section("Units", chart, paragraph(words, soft=True), numbers)


def render_origin(run: dict[str, Any], rows: Iterable[tuple[str, Any]], *tables: str) -> str:
    """Return the section with the command, the versions and the machine of a run."""
    rows = [*rows, *((f"version of {name}", version) for name, version in run["versions"].items())]
    rows += [(name, str(value)) for name, value in run["machine"].items()]
    command = [paragraph("To repeat this run:"), code(shlex.join(run["command"]))] if run["command"] else []
    facts = table(("what", "value"), rows, folded="Settings and versions")
    return section("Provenance", *command, facts, *tables, wide=True)


def _render_provenance(data: dict[str, Any]) -> str:
    rows = [
        ("content hash", data["content_hash"]),
        ("tokenizer fingerprint", data["tokenizer"]["fingerprint"]),
        *((name, repr(value)) for name, value in data["provenance"]["config"].items()),
    ]
    inputs = [(i["path"], i["size"], i["identity"]) for i in data["provenance"]["inputs"]]
    return render_origin(data["run"], rows, table(("input", "bytes", "identity"), inputs, folded="Inputs"))
