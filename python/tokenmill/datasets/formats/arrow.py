"""The `arrow` format: Arrow IPC streams and the two files by which `datasets.load_from_disk` opens them."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tokenmill.base.durable import digest, publish_json
from tokenmill.datasets.shards.format import Format
from tokenmill.datasets.shards.table import ROLE, TableWriter, make_table_schema, read_table
from tokenmill.sources.hf_directory import SPLITS, STATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tokenmill.datasets.ledger.manifest import Manifest

_INFO = "dataset_info.json"


def _open_batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as source:
        yield from pa.ipc.open_stream(source)


def _finish(root: Path, manifest: Manifest) -> None:
    packing = manifest.packing
    length = packing.context_length if manifest.layout == "rows" else None
    features = {
        field.name: {
            "feature": {"dtype": str(field.type.value_type), "_type": "Value"},
            "length": -1 if length is None else length,
            "_type": "Sequence",
        }
        for field in make_table_schema(manifest.dtype, length, packing.columns)
    }
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    publish_json(root / _INFO, info)
    state: dict[str, Any] = {
        "_data_files": [{"filename": shard.file(ROLE).path} for shard in manifest.shards],
        "_fingerprint": digest(manifest.content_hash)[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    publish_json(root / STATE, state)


def _list_splits(names: Sequence[str]) -> tuple[str, bytes]:
    return SPLITS, (json.dumps({"splits": list(names)}, indent=1) + "\n").encode()


FORMAT = Format(
    name="arrow",
    writer=partial(TableWriter, suffix=".arrow", open_sink=pa.ipc.new_stream),
    reader=partial(read_table, _open_batches),
    read_by="datasets.load_from_disk",
    bytes_per_document=4,
    document_columns=True,
    beside=(STATE, _INFO),
    finish=_finish,
    list_splits=_list_splits,
)
