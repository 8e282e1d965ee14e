"""Remove documents from a dataset by rewriting only the shards that contain them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.texts import is_learned
from tokenmill.datasets.dataset import Dataset
from tokenmill.datasets.documents import select_documents
from tokenmill.datasets.ledger.receipt import Account
from tokenmill.datasets.ledger.selection import REMOVED, Removal
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.pipeline.encode import Encoded
from tokenmill.pipeline.rewrite import open_source, read_side_files, write_again
from tokenmill.pipeline.traces import SourceDocuments

# The reason in the account for documents removed without a reason.
REASON = "removed"
_TYPES = {"document": int, "id": str, "contains": str, "file": str, "row": int, "reason": str}


def remove(
    dataset: str | Path,
    documents: str | Path | Mapping[int, str],
    output: str | Path,
    *,
    tokenizer: Any = None,
) -> Dataset:
    """Write a copy of `dataset` without some documents. The others keep their order.

    >>> import tokenmill
    >>> made = tokenmill.prepare(
    ...     dataset=["one", "two", "three"], tokenizer=tokenizer, output="out", verbose_level="ERROR"
    ... )
    >>> less = tokenmill.remove("out", {1: "takedown"}, "less")
    >>> [tokenizer.decode(ids, skip_special_tokens=True) for ids in less]
    ['one', 'three']
    >>> dict(less.manifest.account.documents_dropped)
    {'takedown': 1}

    Args:
        dataset: A finished dataset.
        documents: A file with one document per line (see docs/audit.md), or a mapping of document numbers
            to reasons.
        output: The directory of the new dataset.
        tokenizer: The tokenizer of `dataset`, to search for texts, if it has moved.

    Returns:
        The new dataset: equal to one prepared without those documents, unless duplicates were dropped.

    Raises:
        DatasetError: A document cannot be found, or the dataset cannot be rewritten from its own tokens.
        ConfigError: The list cannot be read, or `output` holds something else.
    """
    source, plan = open_source(dataset, output)
    found = dict(documents) if not isinstance(documents, str | Path) else _find(source, documents, tokenizer)
    marked = source.manifest.account.learned_read > 0
    removed: dict[int, dict[int, str]] = {}
    for number in sorted(found):
        if not 0 <= number < len(source):
            raise DatasetError(f"there is no document {number:,}: the dataset has {len(source):,}, from 0")
        shard, local = source.shards.locate_document(number)
        removed.setdefault(shard, {})[local] = found[number]

    def drop(shard: int, first: int, documents: Encoded, account: Account) -> Encoded:
        ids, offsets, origins = documents
        kept = np.ones(documents.documents, bool)
        for local, reason in removed[shard].items():
            nth = local - first
            if 0 <= nth < len(kept):
                kept[nth] = False
                gone = ids[offsets[nth] : offsets[nth + 1]]
                account.documents_dropped[reason] += 1
                account.tokens_dropped[reason] += len(gone)
                if marked:
                    account.learned_dropped[reason] += int(is_learned(gone).sum())
        return Encoded(*select_documents(ids, offsets, kept), origins.take(kept))

    removal = Removal(source.content_hash, dict(sorted(found.items())))
    files = read_side_files(source.path) | {REMOVED: removal.encode()}
    return write_again(source, plan, output, drop, files=files, removed=removed)


def _find(source: Dataset, path: str | Path, tokenizer: Any) -> dict[int, str]:
    """Return the numbers of the documents in a list, each with its reason."""
    reasons: dict[str, dict[Any, str]] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            way, value, reason = _read_line(line.strip(), f"{path}:{number}")
            reasons.setdefault(way, {})[value] = reason
    if not reasons:
        raise ConfigError(f"{path} names no document")
    known = SourceDocuments(source.rows(1, packing="concat"), tokenizer)
    found: dict[int, str] = reasons.pop("document", {})
    for way, values in reasons.items():
        try:
            for value, numbers in known.find(way, list(values)).items():
                found |= dict.fromkeys(numbers, values[value])
        except (DatasetError, ConfigError) as error:
            raise type(error)(f"{path}: {error}") from None
    return found


def _read_line(line: str, where: str) -> tuple[str, Any, str]:
    """Return the way to find a document, what to look for, and the reason."""
    if not line.startswith("{"):
        return "record", line, REASON
    try:
        item = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON ({error})") from None
    keys = item.keys() - {"reason"}
    known = keys in ({"document"}, {"id"}, {"contains"}, {"file", "row"})
    if not known or any(type(value) is not _TYPES[key] for key, value in item.items()):
        raise ConfigError(
            f"{where}: {line}: name a document by one of document (a number), id, contains, or file and row, "
            "with a reason if you like"
        )
    reason = item.pop("reason", REASON)
    if "file" in item:
        return "record", f"{item['file']}:{item['row']}", reason
    way, value = next(iter(item.items()))
    return way, value, reason
