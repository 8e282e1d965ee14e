"""Rewrite a dataset in another format, shard by shard, where nothing is lost."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.durable import digest, sweep_leftovers
from tokenmill.datasets.formats.files import ShardShape
from tokenmill.datasets.formats.format import find_format, read_items
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN, load_manifest, save_manifest
from tokenmill.datasets.ledger.receipt import SHARDS
from tokenmill.datasets.remote import COPY, make_local_copy, pass_on_copy
from tokenmill.errors import ConfigError
from tokenmill.pipeline.output import explain_faults, lock_dataset
from tokenmill.sources.stores import is_remote

if TYPE_CHECKING:
    from tokenmill.datasets.formats.format import Format
    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import ShardEntry


def convert_dataset(
    source: str | Path, target: str | Path, output_format: str, *, dtype: str = "auto", lossy: bool = False
) -> Manifest:
    """Write the same tokens in another format and return the manifest of the new dataset.

    Raise `ConfigError` for what the new format cannot hold, unless `lossy`. The same call finishes what a
    killed run left undone.
    """
    if is_remote(target):
        raise ConfigError(f"{target} is a URL; convert to a directory and copy it there")
    root, place = make_local_copy(source), Path(target)
    manifest = load_manifest(root)
    written_as = find_format(output_format)
    lost = _list_lost(manifest, find_format(manifest.format), written_as)
    if lost and not lossy:
        raise ConfigError(
            f"{output_format} has no place for {', '.join(lost)}; allow that with --lossy, or keep the format"
        )
    made = _describe_target(manifest, written_as, dtype)
    with explain_faults(place), lock_dataset(place):
        if (place / PLAN).exists() or (place / MANIFEST).exists():
            there = load_manifest(place) if (place / MANIFEST).exists() else None
            if there is None or _drop_files(there) != made:
                raise ConfigError(f"{place} already holds another dataset; name another directory")
            return there
        for folder in (place, place / SHARDS, place / COPY):
            sweep_leftovers(folder)
        pairs = zip(manifest.shards, made.shards, strict=True)
        shards = tuple(_convert_shard(root, manifest, *pair, place, made) for pair in pairs)
        made = replace(made, shards=shards)
        pass_on_copy(root, place)
        if written_as.finish is not None:
            written_as.finish(place, made)
        save_manifest(place, made)
    return made


def _describe_target(manifest: Manifest, written_as: Format, dtype: str) -> Manifest:
    """Return the manifest of the new dataset, with shards that have no files yet."""
    chosen = written_as.choose_dtype(dtype, manifest.tokenizer.vocab_size)
    name = written_as.name
    values = {"output.format": name, "output.dtype": chosen, "converted_from": manifest.format}
    columns = written_as.keep_columns(manifest.packing.columns)
    units = [digest({"unit": shard.unit, "format": name, "dtype": chosen}) for shard in manifest.shards]
    shards = zip(manifest.shards, units, strict=True)
    return replace(
        manifest,
        format=name,
        dtype=chosen,
        packing=replace(manifest.packing, columns=columns),
        config=manifest.config | values,
        shards=tuple(replace(shard, unit=unit, files=()) for shard, unit in shards),
    )


def _drop_files(manifest: Manifest) -> Manifest:
    return replace(manifest, shards=tuple(replace(shard, files=()) for shard in manifest.shards))


def _list_lost(manifest: Manifest, read_as: Format, written_as: Format) -> list[str]:
    """Return what the new format cannot hold. Raise `ConfigError` if rows cannot be converted at all."""
    lost, columns, rows = [], manifest.packing.columns, manifest.layout == "rows"
    if rows and written_as.mapped and not read_as.mapped:
        raise ConfigError(
            f"the rows of a {read_as.name} dataset do not say where their documents are, and "
            f"{written_as.name} rows must; prepare again from the sources, or convert the documents of a "
            "stream dataset"
        )
    if rows and read_as.mapped and not written_as.mapped and "document_ids" not in columns:
        lost.append("the documents' places in the rows (the segments)")
    lost_columns = [name for name in columns if name not in written_as.keep_columns(columns)]
    if lost_columns:
        lost.append(f"the columns {', '.join(lost_columns)}")
    return lost


def _convert_shard(
    root: Path, manifest: Manifest, shard: ShardEntry, target: ShardEntry, place: Path, made: Manifest
) -> ShardEntry:
    length = made.packing.context_length if made.layout == "rows" else None
    items = read_items(root, manifest, shard)
    shape = ShardShape(place, shard.name, made.dtype, length, made.packing.columns)
    writer = find_format(made.format).writer(shape)
    try:
        for some in items:
            kept = {name: some.columns[name] for name in made.packing.columns}
            writer.write(replace(some, columns=kept))
        files = writer.close()
    finally:
        writer.discard()
    for entry in shard.files:
        if entry.role == "provenance":
            (place / entry.path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / entry.path, place / entry.path)
            files.append(entry)
    return replace(target, files=tuple(files))
