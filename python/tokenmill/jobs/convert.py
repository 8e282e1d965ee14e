"""Rewrite a dataset in another format, shard by shard, where nothing is lost."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.durable import digest
from tokenmill.base.errors import ConfigError
from tokenmill.datasets.formats.items import read_items
from tokenmill.datasets.formats.registry import check_columns, choose_dtype, finish_dataset, open_writer
from tokenmill.datasets.formats.shard import ShardShape
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN, load_manifest, save_manifest

if TYPE_CHECKING:
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import FileEntry, ShardEntry


def convert_dataset(
    source: str | Path, target: str | Path, output_format: str, *, dtype: str = "auto", lossy: bool = False
) -> Manifest:
    """`convert_dataset("out", "out-megatron", "megatron")` -> the manifest of the new dataset.

    What the new format has no place for is named in a `ConfigError`, unless `lossy` says that it may go.
    """
    root, place = Path(source), Path(target)
    manifest = load_manifest(root)
    if (place / MANIFEST).exists() or (place / PLAN).exists():
        raise ConfigError(f"{place} holds a dataset already; name another directory")
    lost = _lost(manifest, output_format)
    if lost and not lossy:
        raise ConfigError(
            f"{output_format} has no place for {', '.join(lost)}; allow that with --lossy, or keep the format"
        )
    columns = () if lost and "columns" in lost[-1] else manifest.packing.columns
    packing = replace(manifest.packing, columns=columns)
    check_columns(output_format, packing.columns)
    chosen = choose_dtype(output_format, dtype, manifest.tokenizer.vocab_size)
    values = manifest.config | {
        "output.format": output_format,
        "output.dtype": chosen,
        "converted_from": manifest.format,
    }
    made = replace(manifest, format=output_format, dtype=chosen, packing=packing, config=values, shards=())
    shards = tuple(_convert_shard(root, manifest, shard, place, made) for shard in manifest.shards)
    made = replace(made, shards=shards)
    finish_dataset(place, made)
    save_manifest(place, made)
    return made


def _lost(manifest: Manifest, output_format: str) -> list[str]:
    """What the new format cannot hold."""
    lost = []
    rows = manifest.layout == "rows"
    if (
        rows
        and manifest.format == "tokenmill"
        and output_format != "tokenmill"
        and "document_ids" not in manifest.packing.columns
    ):
        lost.append("the documents' places in the rows (the segments)")
    if rows and manifest.format != "tokenmill" and output_format == "tokenmill":
        raise ConfigError(
            f"the rows of a {manifest.format} dataset do not say where their documents are, and tokenmill "
            "rows must; prepare again from the sources, or convert the documents of a stream dataset"
        )
    if manifest.packing.columns and output_format in {"megatron", "litdata"}:
        lost.append(f"the columns {', '.join(manifest.packing.columns)}")
    return lost


def _convert_shard(
    root: Path, manifest: Manifest, shard: ShardEntry, place: Path, made: Manifest
) -> ShardEntry:
    length = made.packing.context_length if made.layout == "rows" else None
    shape = ShardShape(place, shard.name, made.dtype, length, made.packing.columns)
    writer = open_writer(made.format, shape)
    try:
        for items in read_items(root, manifest, shard):
            columns: dict[str, Any] = {name: np.asarray(items.columns[name]) for name in made.packing.columns}
            writer.write(np.asarray(items.ids), items.offsets, columns, items.segments)
        files = writer.close()
    finally:
        writer.discard()
    files += [_copied(root, place, entry) for entry in shard.files if entry.role == "provenance"]
    unit = digest({"unit": shard.unit, "format": made.format, "dtype": made.dtype})
    return replace(shard, unit=unit, files=tuple(files))


def _copied(root: Path, place: Path, entry: FileEntry) -> FileEntry:
    (place / entry.path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / entry.path, place / entry.path)
    return entry
