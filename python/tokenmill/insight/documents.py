"""Look into a dataset: what it is, and one document with where it came from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.errors import TokenmillError
from tokenmill.datasets.ledger.manifest import load_manifest
from tokenmill.datasets.ledger.plan import load_plan
from tokenmill.datasets.ledger.provenance import read_origin
from tokenmill.datasets.ledger.receipt import load_receipt
from tokenmill.datasets.ledger.record import to_plain
from tokenmill.datasets.reader.dataset import open_dataset
from tokenmill.insight.dataset_tokenizer import load_dataset_tokenizer

if TYPE_CHECKING:
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.plan import Plan
    from tokenmill.datasets.ledger.receipt import ShardEntry


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
    """One document: its ids, its text where the tokenizer can be had, and its origin where it was kept."""
    root = Path(path)
    dataset = open_dataset(root)
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
    return found | _text(manifest, ids, tokenizer) | _origin(root, manifest.shards[shard], shard, local)


def _text(manifest: Manifest, ids: Any, tokenizer: Any) -> dict[str, Any]:
    try:
        return {"text": load_dataset_tokenizer(manifest, tokenizer).decode(ids.tolist())}
    except TokenmillError as error:
        return {"text": None, "why_no_text": f"{error}; name one with --tokenizer"}


def _origin(root: Path, shard: ShardEntry, ordinal: int, local: int) -> dict[str, Any]:
    if not any(entry.role == "provenance" for entry in shard.files):
        return {"origin": None, "why_no_origin": "the dataset was made without --provenance"}
    origin = read_origin(root / shard.file("provenance").path, local)
    plan = load_plan(root)
    if plan is None:
        return {"origin": origin}
    part = plan.units[ordinal].parts[origin["part"]]
    before = _records_before(root, plan, ordinal, origin["part"])
    row = None if before is None else before + origin["row"]
    where = {"input": plan.inputs[part.input].url, "range": str(part.range), "row_in_range": origin["row"]}
    return {"origin": where | {"row": row, "id": origin["id"]}}


def _records_before(root: Path, plan: Plan, ordinal: int, part: int) -> int | None:
    """How many records of the same input come before a part, by the receipts of the earlier parts."""
    wanted = plan.units[ordinal].parts[part].input
    total = 0
    for unit in plan.units[: ordinal + 1]:
        mine = [nth for nth, other in enumerate(unit.parts) if other.input == wanted]
        if unit.ordinal == ordinal:
            mine = [nth for nth in mine if nth < part]
        if not mine:
            continue
        receipt = load_receipt(root, unit.name, unit.id)
        if receipt is None:
            return None
        total += sum(receipt.records[nth] for nth in mine)
    return total
