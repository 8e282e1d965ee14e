"""Report of a dataset: collect data from the manifest, the receipts and the shards, and render the page."""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.base import words
from tokenmill.base.durable import publish_bytes, readable_json
from tokenmill.base.records import to_plain
from tokenmill.datasets.dataset import open_dataset
from tokenmill.datasets.ledger.manifest import PLAN, Manifest, load_manifest
from tokenmill.datasets.ledger.plan import load_plan
from tokenmill.datasets.ledger.receipt import Receipt, ShardEntry, load_receipt
from tokenmill.datasets.mapped import MappedShards
from tokenmill.datasets.records import PROVENANCE
from tokenmill.datasets.remote import Remote, open_cached
from tokenmill.errors import DatasetError, TokenmillError
from tokenmill.report.dataset_tokenizer import find_dataset_tokenizer
from tokenmill.report.documents import describe_dataset
from tokenmill.report.page import cards, draw_ranks, grid, page, paragraph, render_settings, section, table
from tokenmill.report.training import REPORT_HTML, REPORT_JSON, write_training_report
from tokenmill.sources.stores import is_remote
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.merging import TRAINING
from tokenmill.vocab.card import describe_counts
from tokenmill.vocab.scripts import count_scripts

logger = logging.getLogger("tokenmill.report")
MOST_BYTES = 256 << 20  # read of a dataset in an object store
CHUNK = 1 << 24  # tokens counted at a time
LENGTH_CLASSES = 64
MOST_SOURCES = 30


def write_report(location: str | Path, tokenizer: Any = None) -> str:
    """Write `report.json` and `report.html` into the output of a finished run; return the page's address.

    `tokenizer` is that of the dataset, if the caller has loaded it. Raise `DatasetError` if the location
    holds neither a dataset nor a trained tokenizer.
    """
    if is_remote(location):
        return _write_remote(str(location), tokenizer)
    root = Path(location)
    if not root.is_dir():
        raise DatasetError(f"{root}: no such directory; give the output directory of a prepare or train run")
    if (root / TRAINING).exists() and not (root / PLAN).exists():
        write_training_report(root, Tokenizer.load(root))
    else:
        data = collect_dataset(root, tokenizer)
        publish_bytes(root / REPORT_JSON, readable_json(data))
        publish_bytes(root / REPORT_HTML, render_dataset(data))
    return str(root / REPORT_HTML)


def _write_remote(address: str, tokenizer: Any) -> str:
    """Write the report of a dataset in an object store, with the tokens of every n-th shard counted."""
    remote = Remote(address)
    manifest, cache = open_cached(remote.address)
    remote.pull(cache.root)
    total = sum(entry.bytes for shard in manifest.shards for entry in shard.files)
    chosen = manifest.shards[:: max(1, math.ceil(total / MOST_BYTES))]
    for shard in chosen:
        for entry in shard.files:
            cache.path(entry)
    data = collect_dataset(cache.root, tokenizer, remote.address.rpartition("/")[2], chosen)
    remote.replace(REPORT_JSON, readable_json(data))
    remote.replace(REPORT_HTML, render_dataset(data))
    return f"{remote.address}/{REPORT_HTML}"


def report_if_possible(location: str | Path, tokenizer: Any = None) -> None:
    """Write the report of a finished job, or log a warning if that fails."""
    try:
        write_report(location, tokenizer)
    except (OSError, TokenmillError) as error:
        logger.warning("no report was written: %s", error)


def collect_dataset(
    root: Path, tokenizer: Any = None, name: str | None = None, counted: Sequence[ShardEntry] | None = None
) -> dict[str, Any]:
    """Return the data of `report.json` for a dataset; `counted` are the shards to read, by default all."""
    manifest = load_manifest(root)
    if not isinstance(tokenizer, Tokenizer):
        # Without a tokenizer the report shows ids.
        tokenizer = find_dataset_tokenizer(root, manifest)
    shards = manifest.shards if counted is None else counted
    whole = len(shards) == len(manifest.shards)
    sizes = {entry.path: entry.bytes for shard in manifest.shards for entry in shard.files}
    loaded = [load_receipt(root, shard.name, shard.unit, sizes) for shard in manifest.shards]
    receipts = {receipt.shard.name: receipt for receipt in loaded if receipt is not None}
    counts, lengths = _count_shards(root, manifest, shards)
    if manifest.packing.pad_id is not None:
        read = [receipts[shard.name].account for shard in shards if shard.name in receipts]
        padding = sum(each.tokens_padding for each in ([manifest.account] if whole else read))
        counts[manifest.packing.pad_id] -= padding
    used = np.flatnonzero(counts).tolist() if tokenizer else ()
    return describe_dataset(root) | {
        "report_version": 3,
        "kind": "prepare",
        "path": name or root.name,
        "fingerprint": manifest.tokenizer.fingerprint,
        "shards_counted": len(shards),
        "sources": _sum_sources(root, manifest, receipts),
        "scripts": count_scripts((tokenizer.token_bytes(token), int(counts[token])) for token in used),
        "lengths": lengths | {"context_length": manifest.packing.context_length},
        "packing": _describe_packing(root, manifest, whole=whole),
        "vocabulary": describe_counts(counts, tokenizer),
        "inputs": to_plain(manifest.inputs),
        "config": manifest.config,
    }


def _count_shards(
    root: Path, manifest: Manifest, shards: Sequence[ShardEntry]
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Return the count of each id, and document counts by length, which are empty for a layout of rows."""
    counts = np.zeros(manifest.tokenizer.vocab_size, dtype=np.int64)
    # By bit length (0, 1, 2-3, 4-7, …), so that each class is twice as wide as the one before.
    classes = np.zeros(LENGTH_CLASSES, dtype=np.int64)
    longest = total = 0
    files = MappedShards(root, manifest)
    names = {shard.name for shard in shards}
    for index in (nth for nth, shard in enumerate(manifest.shards) if shard.name in names):
        for _, ids, offsets in files.read_documents(index):
            for start in range(0, len(ids), CHUNK):
                counts += np.bincount(ids[start : start + CHUNK], minlength=len(counts))[: len(counts)]
            if manifest.layout == "documents":
                lengths = np.diff(offsets)
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


def _describe_packing(root: Path, manifest: Manifest, *, whole: bool) -> dict[str, Any]:
    """Return the token counts of the rows in the files, or of those of the default view."""
    account, view = manifest.account.to_json()["tokens"], manifest.packing.view
    found = {key: account[key] for key in ("written", "repeated", "padding", "dropped")}
    if view is not None and manifest.layout == "documents" and whole:
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


def _sum_sources(root: Path, manifest: Manifest, receipts: dict[str, Receipt]) -> list[dict[str, Any]]:
    """Return documents and tokens per input in plan order; exact by file with provenance.

    Without provenance, small files that share a unit are one line.
    """
    plan = load_plan(root)
    units = {unit.id: unit for unit in plan.units} if plan else {}
    sums: dict[str, Counter[str]] = {}
    for shard in manifest.shards:
        receipt, unit = receipts.get(shard.name), units.get(shard.unit)
        urls = [plan.inputs[part.input].url for part in unit.parts] if plan and unit else ["converted"]
        origins = next((root / each.path for each in shard.files if each.role == PROVENANCE), None)
        if len(set(urls)) > 1 and origins is not None and origins.exists():
            from tokenmill.datasets.ledger.provenance import read_origins  # here, since it imports Arrow

            found = read_origins(origins)
            parts, lengths = found["part"].to_numpy(), found["tokens"].to_numpy()
            documents, tokens = np.bincount(parts), np.bincount(parts, weights=lengths)
            for part in np.flatnonzero(documents).tolist():
                counts = {"documents": int(documents[part]), "tokens": int(tokens[part])}
                sums.setdefault(urls[part], Counter()).update(counts)
        elif receipt is not None:
            first, *others = dict.fromkeys(urls)
            name = f"{first} and {len(others):,} more small files" if others else first
            counts = {"documents": shard.documents, "tokens": receipt.account.tokens_encoded}
            sums.setdefault(name, Counter()).update(counts)
    return [{"path": path, **counts} for path, counts in sums.items()]


def render_dataset(data: dict[str, Any]) -> bytes:
    """Return the HTML of the report of a dataset; every number is in `report.json`."""
    account, vocabulary = data["account"], data["vocabulary"]
    big = {
        "documents": data["documents"],
        "tokens": data["tokens"],
        "bytes per token": account["text_bytes"] / max(account["tokens"]["encoded"], 1),
        "on disk": words.size(data["bytes"]),
        "vocabulary used": f"{100 * vocabulary['used'] / max(vocabulary['size'], 1):.1f} %",
    }
    scripts = [list(row.values()) for row in data["scripts"]]
    facts = {"content hash": data["content_hash"], "tokenizer": data["fingerprint"]}
    inputs = [(i["path"], i["size"], i["identity"]) for i in data["inputs"]]
    rebuild = "The command tokenmill dataset rebuild repeats this run and compares every byte."
    parts = [
        _render_account(account),
        _render_sources(data["sources"]),
        _render_lengths(data["lengths"]),
        _render_packing(data["packing"]),
        section(
            "Bytes per token by script",
            table(("script", "tokens", "bytes", "bytes per token"), scripts, bar=3),
        ),
        _render_vocabulary(vocabulary),
        _render_rejects(account, data["rejects"]),
        render_settings(
            facts | data["config"],
            paragraph(rebuild, soft=True),
            table(("input", "bytes", "identity"), inputs, folded="Inputs"),
        ),
    ]
    lead = f"{data['format']}, {data['layout']}, {data['dtype']}; tokenizer {data['tokenizer']}"
    if data["shards_counted"] != data["shards"]:
        lead += (
            f". Vocabulary, scripts and lengths were counted in {data['shards_counted']:,} of "
            f"{data['shards']:,} shards; all other figures are for the whole dataset"
        )
    return page(f"Report of {data['path']}", lead, [cards(big), grid(*parts)])


def _render_account(account: dict[str, Any]) -> str:
    tokens, documents, learned = account["tokens"], account["documents"], account.get("learned")
    names = ("read", "encoded", "added", "written", "repeated", "padding", "stored")
    rows = _list_counts("documents", documents, ("read", "written")) + _list_counts("tokens", tokens, names)
    rows += [("special-token strings inside documents", account["special_strings"])]
    note = "Read = written + dropped, for documents and for tokens."
    if learned is not None:
        rows += _list_counts("trained tokens", learned, ("read", "written", "repeated"))
        rows += [(f"trained tokens of {role}", count) for role, count in learned["roles"].items()]
        share = learned["written"] / max(tokens["written"], 1)
        note += f" Of all tokens written, {share:.1%} are trained on."
    return section("The account", table(("what", "count"), rows), paragraph(note, soft=True))


def _list_counts(noun: str, counts: dict[str, Any], names: Iterable[str]) -> list[tuple[str, int]]:
    dropped = [(f"{noun} dropped: {reason}", count) for reason, count in counts["dropped"].items()]
    return [(f"{noun} {name}", counts[name]) for name in names] + dropped


def _render_sources(sources: list[dict[str, Any]]) -> str:
    shown = sorted(sources, key=lambda s: -s["tokens"])[:MOST_SOURCES]
    folder = os.path.commonprefix([s["path"] for s in shown]).rpartition("/")[0]  # noqa: RUF071 - cut at a slash
    rows = [(s["path"].removeprefix(f"{folder}/"), s["documents"], s["tokens"]) for s in shown]
    note = f"In {folder}." if folder else ""
    if len(sources) > len(shown):
        note = f"The {len(shown)} largest of {len(sources):,} sources. {note}"
    return section("Sources", table(("file", "documents", "tokens"), rows, bar=2), paragraph(note, soft=True))


def _render_lengths(lengths: dict[str, Any]) -> str:
    rows = [
        (f"{c['from']:,} to {c['to']:,}", c["documents"], f"{c['cumulated_percent']:.1f} %")
        for c in lengths["classes"]
    ]
    note = f"Mean {lengths['mean']:,.1f} tokens, longest {lengths['longest']:,}."
    if lengths["context_length"]:
        note += f" The context length is {lengths['context_length']:,}."
    shown = table(("tokens", "documents", "cumulative"), rows, bar=1)
    return section("Document lengths", shown, paragraph(note, soft=True)) if rows else ""


def _render_packing(packing: dict[str, Any]) -> str:
    rows = [("written once", packing["written"]), ("repeated by overlap", packing["repeated"])]
    rows += [("padding", packing["padding"])]
    rows += [(f"dropped: {reason}", count) for reason, count in packing["dropped"].items()]
    note = f"Mode {packing['mode']}"
    if packing["context_length"]:
        note += f", context length {packing['context_length']:,}, overlap {packing['overlap']:,}"
    note += f"; {packing['fill_percent']:.2f} % of the {packing['stored']:,} tokens in rows are not padding."
    return section("Packing", table(("tokens", "count"), rows, bar=1), paragraph(note, soft=True))


def _render_vocabulary(vocabulary: dict[str, Any]) -> str:
    note = f"{vocabulary['used']:,} of {vocabulary['size']:,} ids occur; {vocabulary['unused']:,} never do."
    if vocabulary["unused"]:
        note += " For example: " + "  ".join(map(repr, vocabulary["unused_sample"][:20]))
    top = [(repr(t["token"]), t["id"], t["count"]) for t in vocabulary["top"]]
    folded = table(("token", "id", "count"), top, folded="The most frequent tokens")
    return section("Vocabulary", draw_ranks(vocabulary["rank_frequency"]), paragraph(note, soft=True), folded)


def _render_rejects(account: dict[str, Any], places: list[dict[str, Any]]) -> str:
    rows = [(what, *each) for what in ("rejected", "replaced") for each in account[what].items()]
    if not rows:
        return ""
    shown = [(p["reason"], p["place"], p["sample"]) for p in places]
    return section(
        "Rejects",
        table(("what", "reason", "records"), rows),
        table(("reason", "place", "begins with"), shown, folded="The first places"),
    )
