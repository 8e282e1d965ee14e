"""Look into a dataset or a run: documents, rows, progress and conversations."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.durable import read_progress
from tokenmill.base.records import to_plain
from tokenmill.datasets.dataset import Dataset, open_dataset
from tokenmill.datasets.ledger.manifest import MANIFEST, load_manifest
from tokenmill.datasets.records import Records
from tokenmill.datasets.remote import read_manifest
from tokenmill.errors import ConfigError, DatasetError, TokenmillError
from tokenmill.report.dataset_tokenizer import find_dataset_tokenizer, load_dataset_tokenizer
from tokenmill.tokenizer.tokenizer import Tokenizer

ROW_LENGTH = 1024  # rows of a `stream` dataset are cut at read time; any length is valid for display
ROLES = ("system", "user", "assistant", "tool")
SAMPLE: list[dict[str, Any]] = [
    {"role": "user", "content": "What does the mill do?"},
    {"role": "assistant", "content": "It turns."},
    {"role": "user", "content": "And then? <|im_end|>"},
    {"role": "assistant", "content": "It grinds the grain."},
]


def describe_dataset(path: str | Path) -> dict[str, Any]:
    """Return the properties of a dataset for `tokenmill inspect`."""
    manifest = read_manifest(path)
    return {
        "path": str(path),
        "format": manifest.format,
        "layout": manifest.layout,
        "dtype": manifest.dtype,
        "tokenizer": manifest.tokenizer.name,
        "vocab_size": manifest.tokenizer.vocab_size,
        "packing": to_plain(manifest.packing) | {"mode": manifest.packing.mode},
        "documents": manifest.documents,
        "tokens": manifest.tokens,
        "rows": manifest.rows,
        "shards": len(manifest.shards),
        "bytes": sum(entry.bytes for shard in manifest.shards for entry in shard.files),
        "inputs": len(manifest.inputs),
        "account": manifest.account.to_json(),
        "rejects": to_plain(manifest.rejects),
        "content_hash": manifest.content_hash,
    }


def describe_document(
    path: str | Path, number: int, tokenizer: Any = None, most: int | None = None
) -> dict[str, Any]:
    """Return a document: its ids, its origin or None, and its text in spans that are trained on or not.

    Only the first `most` tokens are shown. Without a tokenizer, the spans have ids and `why_no_text` is the
    reason.
    """
    dataset = open_dataset(path)
    _check_index(path, "document", number, len(dataset))
    ids, trained = dataset[number], dataset.has_loss_mask
    shard, local = dataset.shards.locate_document(number)
    mask = dataset.loss_mask(number) if trained else np.zeros(len(ids), bool)
    found: dict[str, Any] = {}
    try:
        tokenizer = load_dataset_tokenizer(dataset.address, dataset.manifest, tokenizer)
    except TokenmillError as error:
        tokenizer, found = None, {"why_no_text": f"{error}; name one with `tokenizer`"}
    parts = _split_learned(tokenizer, ids[:most], mask[:most])
    return found | {
        "document": number,
        "shard": dataset.manifest.shards[shard].name,
        "document_in_shard": local,
        "tokens": len(ids),
        "ids": ids[:most].tolist(),
        "origin": Records(dataset).find_origin(number),
        "trained": trained,
        "learned": int(mask.sum()),
        "text": None if tokenizer is None else "".join(part["text"] for part in parts),
        "parts": parts,
    }


def _split_learned(tokenizer: Any, ids: NDArray[Any], learned: NDArray[Any]) -> list[dict[str, Any]]:
    """Return `{"text", "learned", "tokens"}` of each span with one value of `learned`."""
    ends = [0, *(np.flatnonzero(np.diff(learned)) + 1).tolist(), len(learned)]
    return [
        {"text": _decode(tokenizer, ids[a:b]), "learned": bool(learned[a]), "tokens": b - a}
        for a, b in pairwise(ends)
        if b > a
    ]


def find_progress(root: Path) -> dict[str, Any]:
    """Return the progress of a job; `state` is "done" or "waiting" if there is no progress file."""
    progress = read_progress(root)
    progress.setdefault("state", "done" if (root / MANIFEST).exists() else "waiting")
    return progress


def describe_run(root: Path, name: str) -> dict[str, Any]:
    """Return one row of the list of runs; the state of a corrupt run is its error message."""
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
    figures = {"documents": manifest.documents, "tokens": manifest.tokens, "format": manifest.format}
    return row | figures | {"account": manifest.account.to_json()}


def read_row(root: Path, index: int) -> dict[str, Any]:
    """Return the text of a row, split at the boundaries of its documents."""
    dataset = open_dataset(root)
    rows = dataset.rows(columns=("document_ids",), **choose_length(dataset))
    _check_index(root, "row", index, len(rows))
    row = rows.gather(np.array([index]))
    ids, owners = row["input_ids"][0], row["document_ids"][0]
    parts = _split_learned(find_dataset_tokenizer(root, dataset.manifest), ids, owners)
    return {"tokens": len(ids), "trained": False, "parts": parts}


def _check_index(address: str | Path, noun: str, index: int, count: int) -> None:
    if not 0 <= index < count:
        name = Path(address).name
        raise DatasetError(f"there is no {noun} {index:,}; {name} has {count:,}, counted from 0")


def choose_length(dataset: Dataset) -> dict[str, Any]:
    """Return the options of `rows()`: those of the default view, or a fixed length."""
    if dataset.manifest.packing.view is not None:
        return {}
    return {"context_length": max(1, min(ROW_LENGTH, dataset.num_tokens))}


def _decode(tokenizer: Tokenizer | None, ids: NDArray[Any]) -> str:
    """Return the text, or the ids if there is no tokenizer."""
    if tokenizer is None:
        return " ".join(map(str, ids.tolist()))
    return tokenizer.decode_bytes(ids.tolist()).decode("utf-8", "replace")


def show_typed(tokenizer: Tokenizer, text: str) -> dict[str, Any]:
    """Render a typed conversation: lines that begin with a role, or the JSON of a record.

    The template is the tokenizer's own, or `plain` if it has none. Raise `ConfigError` for any other text.
    """
    from tokenmill.chat.records import RecordError, RecordShape, read_conversation
    from tokenmill.chat.template import DEFAULT, list_own_templates

    if text.lstrip()[:1] in {"[", "{"}:
        try:
            found = json.loads(text)
            record = {"messages": found} if isinstance(found, list) else found
            messages = read_conversation(json.dumps(record), RecordShape("messages")).messages
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"no conversation: this is not JSON ({error})") from None
        except RecordError as error:
            raise ConfigError(f"no conversation: {error.detail}") from None
    else:
        before, *rest = re.split(rf"\n({'|'.join(ROLES)}):", f"\n{text}")
        if before.strip() or not rest:
            raise ConfigError(
                "no conversation: begin each message on a new line with its role, as in `user: Hello` "
                f"({', '.join(ROLES)}); or paste the JSON of a record"
            )
        pairs = zip(rest[::2], rest[1::2], strict=True)
        messages = [{"role": role, "content": content.strip()} for role, content in pairs]
    name = None if DEFAULT in list_own_templates(tokenizer.recipe) else "plain"
    return show_template(tokenizer, name, messages)


def show_template(
    tokenizer: Tokenizer, name: str | None = None, messages: Sequence[dict[str, Any]] = SAMPLE
) -> dict[str, Any]:
    """Render a conversation with a chat template of the tokenizer; `parts` are trained on or not."""
    from tokenmill.base.texts import is_learned, strip_marks
    from tokenmill.chat.encode import ChatWork
    from tokenmill.chat.records import Conversation, RecordError, RecordShape
    from tokenmill.chat.template import make_template
    from tokenmill.settings.schema import ChatConfig

    template = make_template(tokenizer.recipe, ChatConfig(chat_template=name))
    work = ChatWork(tokenizer, RecordShape("messages"), template, "assistant")
    try:
        rendered = work.renderer.render_conversation(Conversation([dict(message) for message in messages]))
        ids, _ = work.encoder.encode(rendered, "text")
    except RecordError as error:
        return {"template": template.name, "problem": error.detail, "parts": []}
    return {
        "template": template.name,
        "marked": rendered.has_blocks,
        "closed": rendered.closed,
        "tokens": len(ids),
        "parts": _split_learned(tokenizer, strip_marks(ids), is_learned(ids)),
    }
