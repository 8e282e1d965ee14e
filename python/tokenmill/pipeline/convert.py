"""Rewrite a dataset in another format or through another view, shard by shard."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.durable import digest, sweep_leftovers
from tokenmill.base.records import to_plain
from tokenmill.base.texts import mark
from tokenmill.datasets.documents import LOSS_MASK, Origins
from tokenmill.datasets.formats.files import ShardShape
from tokenmill.datasets.formats.format import Format, find_format, read_items
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN, Manifest, load_manifest, save_manifest
from tokenmill.datasets.ledger.plan import Target
from tokenmill.datasets.ledger.receipt import SHARDS, Account, ShardEntry
from tokenmill.datasets.records import PROVENANCE
from tokenmill.datasets.remote import COPY, make_local_copy, pass_on_copy
from tokenmill.datasets.views import make_view
from tokenmill.errors import ConfigError
from tokenmill.pipeline.encode import Encoded
from tokenmill.pipeline.output import explain_faults, lock_dataset
from tokenmill.pipeline.unit import ShardBuilder
from tokenmill.sources.stores import is_remote


def convert_dataset(
    source: str | Path,
    target: str | Path,
    output_format: str,
    *,
    dtype: str = "auto",
    lossy: bool = False,
    **view: Any,
) -> Manifest:
    """Write the same documents in another format and return the manifest of the new dataset.

    A format that stores rows is written through the default view of the dataset, changed by the options of
    `Dataset.rows` in `view`. `packing="stream"` writes documents. Raise `ConfigError` for columns that the
    new format cannot store, unless `lossy`. The same call resumes a killed run.
    """
    if is_remote(target):
        raise ConfigError(f"{target} is a URL; convert to a directory and copy it there")
    root, place = make_local_copy(source), Path(target)
    manifest = load_manifest(root)
    made = _describe_target(manifest, find_format(output_format), dtype, view, lossy=lossy)
    with explain_faults(place), lock_dataset(place):
        if (place / PLAN).exists() or (place / MANIFEST).exists():
            there = load_manifest(place) if (place / MANIFEST).exists() else None
            if there is None or _identify(there) != _identify(made):
                raise ConfigError(f"{place} already contains another dataset; choose another directory")
            return there
        for folder in (place, place / SHARDS, place / COPY):
            sweep_leftovers(folder)
        account, shards = Account(), []
        for shard, new in zip(manifest.shards, made.shards, strict=True):
            if manifest.layout == "rows":
                shards.append(_copy_rows(root, manifest, shard, new, place, made))
            else:
                written, counts = _write_documents(root, manifest, shard, new, place, made)
                shards.append(written)
                account.add(counts)
        if manifest.layout == "documents":
            made = replace(made, account=manifest.account.rewrite(account))
        made = replace(made, shards=tuple(shards))
        pass_on_copy(root, place)
        if (finish := find_format(output_format).finish) is not None:
            finish(place, made)
        save_manifest(place, made)
    return made


def _describe_target(
    manifest: Manifest, written_as: Format, dtype: str, options: dict[str, Any], *, lossy: bool
) -> Manifest:
    """Return the manifest of the new dataset, without files in its shards."""
    packing, name = manifest.packing, written_as.name
    chosen = written_as.choose_dtype(dtype, manifest.tokenizer.vocab_size)
    given = {key: value for key, value in options.items() if value is not None}
    view, columns = packing.view, packing.columns
    if manifest.layout == "rows":
        if given or not written_as.holds_rows:
            raise ConfigError(
                f"the rows of a {manifest.format} dataset do not say where their documents are, so they "
                "cannot be packed again: convert the dataset of documents, or prepare again from the sources"
            )
    else:
        masked = LOSS_MASK in columns
        if given.get("packing") == "stream" and written_as.holds_rows:
            view = None
        elif given:
            view = make_view(view, conversations=masked, **given)
        if view is not None and written_as.holds_rows:
            columns = view.columns if not masked or LOSS_MASK in view.columns else (*view.columns, LOSS_MASK)
        if given.get("columns"):
            written_as.check_columns(columns)
    lost = [column for column in columns if column not in written_as.keep_columns(columns)]
    if lost and written_as.holds_rows and not lossy:
        raise ConfigError(
            f"{name} has no place for the columns {', '.join(lost)}; allow that with --lossy, or keep the "
            "format"
        )
    if view is not None and written_as.holds_rows and view.pads and packing.pad_id is None:
        packing = replace(packing, pad_id=packing.eos_id or 0)
    packing = replace(packing, columns=written_as.keep_columns(columns), view=view)
    settings = {"pad_token": packing.pad_id} | ({} if view is None else to_plain(view.to_settings()))
    values = {f"packing.{key}": value for key, value in settings.items()}
    values |= {"output.format": name, "output.dtype": chosen, "converted_from": manifest.format}
    identity = {"format": name, "dtype": chosen, "packing": to_plain(packing)}
    shards = tuple(
        replace(shard, unit=digest({"unit": shard.unit} | identity), files=()) for shard in manifest.shards
    )
    config = manifest.config | values
    return replace(manifest, format=name, dtype=chosen, packing=packing, config=config, shards=shards)


def _identify(manifest: Manifest) -> list[str]:
    return [manifest.format, *(shard.unit for shard in manifest.shards)]


def _write_documents(
    root: Path, manifest: Manifest, shard: ShardEntry, target: ShardEntry, place: Path, made: Manifest
) -> tuple[ShardEntry, Account]:
    """Write the documents of a shard, or rows of them through the view."""
    marked = manifest.account.learned_read > 0
    described = Target(made.format, made.dtype, made.tokenizer, made.packing)
    builder = ShardBuilder(described, place, shard.name, provenance=False, marked=marked)
    try:
        for items in read_items(root, manifest, shard):
            # The core expects native byte order. `ascontiguousarray` alone may keep the old dtype.
            kind = np.dtype(np.uint16 if items.ids.dtype.itemsize == 2 else np.uint32)
            ids = np.ascontiguousarray(items.ids, kind).view(kind)
            if marked:
                ids = mark(ids, items.columns[LOSS_MASK].astype(bool))
            builder.add(Encoded(ids, items.offsets, Origins(0, np.arange(len(items.offsets) - 1))))
        files = builder.close()
    finally:
        builder.discard()
    account = builder.account
    files += _copy_provenance(root, shard, place)
    entry = replace(target, tokens=account.tokens_stored, rows=builder.rows, files=tuple(files))
    return entry, account


def _copy_rows(
    root: Path, manifest: Manifest, shard: ShardEntry, target: ShardEntry, place: Path, made: Manifest
) -> ShardEntry:
    """Write the rows of a shard in another format that stores rows."""
    shape = ShardShape(place, shard.name, made.dtype, made.row_length, made.packing.columns)
    writer = find_format(made.format).writer(shape)
    try:
        for some in read_items(root, manifest, shard):
            kept = {name: some.columns[name] for name in made.packing.columns}
            writer.write(replace(some, columns=kept))
        files = writer.close()
    finally:
        writer.discard()
    return replace(target, files=(*files, *_copy_provenance(root, shard, place)))


def _copy_provenance(root: Path, shard: ShardEntry, place: Path) -> list[Any]:
    found = [entry for entry in shard.files if entry.role == PROVENANCE]
    for entry in found:
        (place / entry.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / entry.path, place / entry.path)
    return found
