"""Look into a dataset or a run: its state, a document, a row, a step, the occurrences of a token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.durable import read_progress
from tokenmill.base.records import to_plain
from tokenmill.datasets.dataset import open_dataset
from tokenmill.datasets.ledger.manifest import MANIFEST, load_manifest
from tokenmill.datasets.records import Records
from tokenmill.datasets.trace import History
from tokenmill.errors import DatasetError, TokenmillError
from tokenmill.report.chats import split_learned, split_runs
from tokenmill.report.data import read_events
from tokenmill.report.dataset_tokenizer import find_dataset_tokenizer, load_dataset_tokenizer
from tokenmill.report.traces import RunDocuments

if TYPE_CHECKING:
    from tokenmill.datasets.dataset import Dataset
    from tokenmill.tokenizer.tokenizer import Tokenizer


def describe_dataset(path: str | Path) -> dict[str, Any]:
    """What a dataset is and holds, for people and for `--json`."""
    manifest = load_manifest(Path(path))
    stored = sum(entry.bytes for shard in manifest.shards for entry in shard.files)
    return {
        "path": str(path),
        "format": manifest.format,
        "layout": manifest.layout,
        "dtype": manifest.dtype,
        "tokenizer": manifest.tokenizer.name,
        "vocab_size": manifest.tokenizer.vocab_size,
        "packing": to_plain(manifest.packing),
        "documents": manifest.documents,
        "tokens": manifest.tokens,
        "rows": manifest.rows,
        "shards": len(manifest.shards),
        "bytes": stored,
        "inputs": len(manifest.inputs),
        "account": manifest.account.to_json(),
        "rejects": to_plain(manifest.rejects),
        "content_hash": manifest.content_hash,
    }


def describe_document(path: str | Path, number: int, tokenizer: Any = None) -> dict[str, Any]:
    """One document: its ids, its text if the tokenizer can be loaded, and its origin if it was kept."""
    dataset = open_dataset(Path(path))
    ids = dataset[number]
    manifest = dataset.manifest
    number = number + manifest.documents if number < 0 else number
    shard, local = dataset.shards.locate_document(number)
    found: dict[str, Any] = {
        "document": number,
        "shard": manifest.shards[shard].name,
        "document_in_shard": local,
        "tokens": len(ids),
        "ids": ids.tolist(),
    }
    return found | _read_text(dataset, number, tokenizer) | _find_origin(dataset, number)


def _read_text(dataset: Dataset, number: int, tokenizer: Any) -> dict[str, Any]:
    """The text, and of a conversation also its parts, learned or not."""
    ids = dataset[number]
    try:
        loaded = load_dataset_tokenizer(dataset.address, dataset.manifest, tokenizer)
    except TokenmillError as error:
        return {"text": None, "why_no_text": f"{error}; name one with --tokenizer"}
    found: dict[str, Any] = {"text": loaded.decode(ids.tolist())}
    if dataset.has_loss_mask:
        mask = dataset.loss_mask(number)
        found |= {"learned": int(mask.sum()), "parts": split_learned(loaded, ids, mask)}
    return found


def _find_origin(dataset: Dataset, document: int) -> dict[str, Any]:
    found = Records(dataset).find_origin(document)
    if found is None:
        return {"origin": None, "why_no_origin": "the dataset was made without --provenance"}
    return {"origin": found}


MOST_TOKENS_SHOWN = 20_000
MOST_TOKENS_SEARCHED = 200_000_000
MOST_HITS = 20
MOST_ROWS = 64  # of one step; a page that shows thousands shows nothing
ROW_LENGTH = 1024  # rows of a `stream` dataset are cut at read time; any length will do for a look


def find_progress(root: Path) -> dict[str, Any]:
    """How far a job is: what its progress file says, or what the directory shows."""
    progress = read_progress(root) or {}
    progress.setdefault("state", "waiting")
    if (root / MANIFEST).exists() and progress["state"] in ("waiting", "done"):
        progress["state"] = "done"
    return progress


def describe_run(root: Path, name: str) -> dict[str, Any]:
    """One line of the list of runs; a damaged one says so instead of hiding the others."""
    row: dict[str, Any] = {"id": name, "name": name, "documents": None, "tokens": None, "format": None}
    progress = find_progress(root)
    row["state"] = progress["state"]
    if progress["state"] != "done":
        return row | {key: progress.get(key) for key in ("documents", "tokens")}
    if not (root / MANIFEST).exists():
        return row | {"format": "tokenizer"}
    try:
        manifest = load_manifest(root)
    except TokenmillError as error:
        return row | {"state": f"damaged: {error}"}
    return row | {"documents": manifest.documents, "tokens": manifest.tokens, "format": manifest.format}


def read_document(root: Path, index: int) -> dict[str, Any]:
    """One document, decoded."""
    dataset = open_dataset(root)
    if index >= len(dataset):
        raise DatasetError(
            f"there is no document {index:,}; {root.name} has {len(dataset):,}, counted from 0"
        )
    ids, tokenizer = dataset[index], find_dataset_tokenizer(root, dataset.manifest)
    shown, found = ids[:MOST_TOKENS_SHOWN], {"index": index, "tokens": len(ids)}
    more = f" … ({len(ids) - MOST_TOKENS_SHOWN:,} more tokens)" if len(ids) > MOST_TOKENS_SHOWN else ""
    if not dataset.has_loss_mask:
        return found | {"parts": [_decode(tokenizer, shown) + more]}
    # A conversation is cut where learning begins or ends.
    learned = dataset.loss_mask(index)[:MOST_TOKENS_SHOWN]
    runs = split_runs(learned)
    parts = [_decode(tokenizer, shown[a:b]) for a, b in runs]
    return found | {
        "parts": [*parts[:-1], parts[-1] + more],
        "learned": [bool(learned[start]) for start, _ in runs],
    }


def read_row(root: Path, index: int) -> dict[str, Any]:
    """One row, decoded, cut where one document ends and the next begins."""
    dataset = open_dataset(root)
    rows = dataset.rows(columns=("document_ids",), **choose_row_length(dataset))
    if index >= len(rows):
        raise DatasetError(f"there is no row {index:,}; {root.name} has {len(rows):,}, counted from 0")
    row = rows.gather(np.array([index]))
    ids, owners = row["input_ids"][0], row["document_ids"][0]
    tokenizer = find_dataset_tokenizer(root, dataset.manifest)
    parts = [_decode(tokenizer, ids[a:b]) for a, b in split_runs(owners)]
    return {"index": index, "tokens": len(ids), "parts": parts}


def find_token(root: Path, token: int) -> dict[str, Any]:
    """The first places of a token id, searched shard by shard up to a bounded number of tokens."""
    dataset = open_dataset(root)
    if not 0 <= token < dataset.vocab_size:
        raise DatasetError(f"token id {token} is not below the vocabulary's size, {dataset.vocab_size:,}")
    tokenizer = find_dataset_tokenizer(root, dataset.manifest)
    hits: list[dict[str, Any]] = []
    seen = 0
    for shard, entry in enumerate(dataset.manifest.shards):
        tokens = dataset.shards.tokens(shard)
        places = np.flatnonzero(tokens == token)[: MOST_HITS - len(hits)] if entry.tokens else ()
        for place in map(int, places):
            context = _decode(tokenizer, tokens[max(0, place - 8) : place + 9])
            for document, _, _, position in dataset.shards.find_spans(seen + place, 1).tolist():
                hits.append({"document": document, "position": position, "context": context})
        seen += entry.tokens
        if len(hits) >= MOST_HITS or seen > MOST_TOKENS_SEARCHED:
            break
    text = _decode(tokenizer, np.array([token]))
    return {"token": token, "text": text, "hits": hits, "complete": seen >= dataset.num_tokens}


def chart_run(root: Path) -> dict[str, Any]:
    """`{"throughput": [[seconds, bytes/s], …], "memory": [[seconds, bytes], …], "account": {…} or None}`."""
    log = read_events(root)
    return {
        "throughput": [[point["seconds"], point["bytes_per_second"]] for point in log.measure_throughput()],
        "memory": [[sample["seconds_in"], sample["rss"]] for sample in log.samples if "rss" in sample],
        "account": _read_account(root),
    }


def _read_account(root: Path) -> dict[str, Any] | None:
    """The account of a finished run; None while it runs, or where its manifest cannot be read."""
    if find_progress(root)["state"] != "done":
        return None
    try:
        return load_manifest(root).account.to_json()
    except TokenmillError:
        return None


def trace_step(
    root: Path, step: int, *, batch_size: int, world_size: int, seed: int | None, context_length: int | None
) -> dict[str, Any]:
    """The rows that every rank reads at a step, with documents and texts, and how many steps there are."""
    dataset = open_dataset(root)
    cut = choose_row_length(dataset) if context_length is None else {"context_length": context_length}
    rows = dataset.rows(**cut)
    history = History(rows, batch_size, seed=seed, world_size=world_size)
    run_documents = RunDocuments(rows)
    found = history.trace(step)
    described = [run_documents.describe(row, text=True) for row in found[:MOST_ROWS]]
    left_out = len(found) - len(described)
    return {"step": step, "steps": history.count_steps(1), "rows": described, "left_out": left_out}


def choose_row_length(dataset: Dataset) -> dict[str, Any]:
    """How to cut rows to look at: as they are stored, or any length where they are cut when read."""
    if dataset.manifest.layout == "rows":
        return {}
    return {"context_length": max(1, min(ROW_LENGTH, dataset.num_tokens))}


def _decode(tokenizer: Tokenizer | None, ids: np.ndarray[Any, Any]) -> str:
    """Text where the tokenizer is at hand, ids where it is not."""
    if tokenizer is None:
        return " ".join(map(str, ids.tolist()))
    return tokenizer.decode_bytes(ids.tolist()).decode("utf-8", "replace")
