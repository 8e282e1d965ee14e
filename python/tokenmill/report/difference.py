"""What differs between two datasets or locks: settings, inputs, documents, tokens by source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.datasets.ledger.lock import load_lock
from tokenmill.datasets.reader.dataset import open_dataset
from tokenmill.datasets.reader.document_hashes import compare_documents
from tokenmill.datasets.shards.format import find_format
from tokenmill.datasets.trace.records import Records
from tokenmill.datasets.trace.sources import count_sources
from tokenmill.errors import DatasetError
from tokenmill.sources.stores import is_remote

if TYPE_CHECKING:
    from tokenmill.datasets.ledger.manifest import TokenizerIdentity
    from tokenmill.datasets.reader.dataset import Dataset

_SHOWN = 10


@dataclass(frozen=True)
class Side:
    """One of the two: what it says about itself, and the dataset if it is one."""

    content_hash: str
    documents: int
    tokens: int
    tokenizer: TokenizerIdentity
    settings: dict[str, Any]
    inputs: dict[str, str]
    sources: dict[str, tuple[int, int]]
    versions: dict[str, str]
    dataset: Dataset | None = None


def read_side(path: str) -> Side:
    """A dataset, or a lock of one."""
    if not is_remote(path) and Path(path).is_file():
        lock = load_lock(Path(path))
        return Side(
            lock.content_hash,
            sum(shard.documents for shard in lock.shards),
            sum(shard.tokens for shard in lock.shards),
            lock.plan.target.tokenizer,
            lock.plan.values,
            {each.url: each.sha256 or each.identity for each in lock.inputs},
            {each.url: (each.documents, each.tokens) for each in lock.sources},
            lock.versions,
        )
    dataset = open_dataset(path)
    manifest, plan = dataset.manifest, Records(dataset).plan
    counted = count_sources(dataset, plan) if plan is not None else ()
    return Side(
        manifest.content_hash,
        manifest.documents,
        manifest.tokens,
        manifest.tokenizer,
        manifest.config,
        {each.path: each.identity for each in manifest.inputs},
        {each.url: (each.documents, each.tokens) for each in counted},
        {},
        dataset,
    )


def find_differences(before: str, after: str) -> dict[str, Any]:
    """All that differs between two datasets or locks, as one plain object."""
    a, b = read_side(before), read_side(after)
    return {
        "same": a.content_hash == b.content_hash,
        "content_hash": [a.content_hash, b.content_hash],
        "documents": [a.documents, b.documents],
        "tokens": [a.tokens, b.tokens],
        "tokenizer": None
        if a.tokenizer.fingerprint == b.tokenizer.fingerprint
        else [a.tokenizer.to_json(), b.tokenizer.to_json()],
        "settings": _find_differing(a.settings, b.settings),
        "versions": _find_differing(a.versions, b.versions) if a.versions and b.versions else {},
        "inputs": _compare_inputs(a, b),
        "sources": _find_differing(a.sources, b.sources),
        "changes": _compare_documents(a, b),
    }


def _find_differing(a: dict[str, Any], b: dict[str, Any]) -> dict[str, list[Any]]:
    return {key: [a.get(key), b.get(key)] for key in sorted({*a, *b}) if a.get(key) != b.get(key)}


def _compare_inputs(a: Side, b: Side) -> dict[str, list[str]]:
    """Inputs by their URL; a lock knows hashes and a dataset sizes and times, so those are not compared."""
    alike = (a.dataset is None) == (b.dataset is None)
    both = [url for url in a.inputs if url in b.inputs]
    return {
        "gone": [url for url in a.inputs if url not in b.inputs],
        "added": [url for url in b.inputs if url not in a.inputs],
        "changed": [url for url in both if alike and a.inputs[url] != b.inputs[url]],
    }


def _compare_documents(a: Side, b: Side) -> dict[str, Any]:
    """Documents gone and added, by their ids; or why that is not known."""
    if a.content_hash == b.content_hash:
        return {"gone": 0, "added": 0, "first_gone": [], "first_added": []}
    if a.dataset is None or b.dataset is None:
        return {"unknown": "a lock does not hold the documents; compare the datasets"}
    if a.tokenizer.fingerprint != b.tokenizer.fingerprint:
        return {"unknown": "the tokenizers differ, so the same document has different ids"}
    formats = [side.dataset.manifest.format for side in (a, b) if side.dataset is not None]
    if not all(find_format(name).mapped for name in formats):
        return {"unknown": f"the formats {' and '.join(formats)} cannot both be read by document here"}
    gone, came = compare_documents(a.dataset, b.dataset)
    return {
        "gone": len(gone),
        "added": len(came),
        "first_gone": _describe(a.dataset, gone[:_SHOWN].tolist()),
        "first_added": _describe(b.dataset, came[:_SHOWN].tolist()),
    }


def _describe(dataset: Dataset, numbers: list[int]) -> list[dict[str, Any]]:
    records = Records(dataset)
    try:
        return [{"document": number, "origin": records.find_origin(number)} for number in numbers]
    except DatasetError:
        return [{"document": number, "origin": None} for number in numbers]
