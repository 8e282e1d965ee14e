"""Look into a dataset: what it is, and one document with where it came from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.datasets.ledger.manifest import load_manifest
from tokenmill.datasets.ledger.record import to_plain
from tokenmill.datasets.reader.dataset import open_dataset
from tokenmill.datasets.trace.records import Records
from tokenmill.errors import TokenmillError
from tokenmill.report.chats import split_learned
from tokenmill.report.dataset_tokenizer import load_dataset_tokenizer

if TYPE_CHECKING:
    from tokenmill.datasets.reader.dataset import Dataset


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
        "packing": manifest.packing.to_json(),
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
