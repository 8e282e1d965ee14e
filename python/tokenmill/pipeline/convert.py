"""Write the documents of a dataset in another format, or as rows of another view."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenmill.base.records import to_plain
from tokenmill.datasets.documents import LOSS_MASK
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.manifest import Manifest, PackingIdentity, Target
from tokenmill.datasets.views import make_view
from tokenmill.pipeline.rewrite import open_source, read_side_files, write_again


def convert_dataset(
    source: str | Path, target: str | Path, output_format: str, *, dtype: str = "auto", **view: Any
) -> Manifest:
    """Write the same documents in another format and return the manifest of the new dataset.

    A format that stores rows is written through the default view of the dataset, changed by the options of
    `Dataset.rows` in `view`. `packing="stream"` writes documents. Raise `ConfigError` for columns that the
    new format cannot store. The same call resumes a killed run.
    """
    dataset, plan = open_source(source, target)
    written_as = find_format(output_format)
    chosen = written_as.choose_dtype(dtype, dataset.vocab_size)
    packing, old = _choose_packing(dataset.manifest, output_format, view), plan.target
    settings = {} if packing.view is None else to_plain(packing.view.to_settings())
    values = {f"packing.{key}": value for key, value in settings.items()}
    values |= {"packing.pad_token": packing.pad_id, "output.format": output_format, "output.dtype": chosen}
    made = write_again(
        dataset,
        plan,
        target,
        lambda _shard, _first, documents, _account: documents,
        files=read_side_files(dataset.path),
        target=Target(output_format, chosen, old.tokenizer, packing),
        values=values | {"converted_from": old.format},
    )
    return made.manifest


def _choose_packing(manifest: Manifest, output_format: str, options: dict[str, Any]) -> PackingIdentity:
    """Return the columns, the view and the padding of the new dataset."""
    packing, written_as = manifest.packing, find_format(output_format)
    given = {key: value for key, value in options.items() if value is not None}
    columns, masked, view = packing.columns, LOSS_MASK in packing.columns, packing.view
    if given.get("packing") == "stream" and written_as.holds_rows:
        view = None
    elif given:
        view = make_view(view, conversations=masked, **given)
    if view is not None and written_as.holds_rows:
        columns = view.columns if not masked or LOSS_MASK in view.columns else (*view.columns, LOSS_MASK)
        if view.pads and packing.pad_id is None:
            packing = replace(packing, pad_id=packing.eos_id or 0)
    if given.get("columns"):
        written_as.check_columns(columns)
    # Other columns follow from the documents, so that leaving them out loses nothing.
    held = tuple(name for name in columns if written_as.holds_columns or name == LOSS_MASK)
    return replace(packing, columns=held, view=view)
