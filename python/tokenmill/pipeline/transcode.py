"""`tokenmill dataset transcode`: write a dataset with the ids of another tokenizer, without the raw text.

The documents of the old dataset are decoded while they are read, and then prepared as usual. Units, receipts,
resuming, the account and the bytes are the same as for `prepare`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tokenmill.base.texts import Texts
from tokenmill.datasets.dataset import Dataset, open_dataset
from tokenmill.datasets.ledger.manifest import PackingIdentity
from tokenmill.datasets.ledger.provenance import read_origins
from tokenmill.datasets.records import PROVENANCE, Records
from tokenmill.errors import DatasetError
from tokenmill.pipeline.prepare import prepare
from tokenmill.report.dataset_tokenizer import load_dataset_tokenizer
from tokenmill.sources.fields import Request
from tokenmill.sources.memory import MemoryInput
from tokenmill.sources.model import Block, Range
from tokenmill.tokenizer.engines.backend import Special, TokenBatch
from tokenmill.tokenizer.files.hf import walk
from tokenmill.tokenizer.tokenizer import Tokenizer

# Estimated bytes of text per token, for the plan.
_BYTES_PER_TOKEN = 4


class DecodedInput(MemoryInput):
    """Documents of a dataset as one input of the new job.

    `homes` maps each range to a shard and, with provenance, to a part of its unit.
    """

    def __init__(self, dataset: Dataset, tokenizer: Tokenizer, url: str, identity: str, size: int) -> None:
        self.dataset = dataset
        self.tokenizer = tokenizer
        self.url = url
        self.size = size
        self.homes: dict[Range, tuple[int, int | None]] = {}
        self._identity = identity

    @property
    def ranges(self) -> list[Range]:
        """Return the ranges in the order in which they were added."""
        return list(self.homes)

    def identity(self) -> str:
        """Return a string that changes with the content."""
        return self._identity

    def sample(self) -> list[Any]:
        """Return one text as a sample record."""
        return [""]

    def blocks(self, request: Request, start: int, stop: int | None, /) -> Iterator[Block]:
        """Yield the documents of the requested range, or all of them."""
        del start, stop
        wanted = [request.part] if request.part in self.homes else self.ranges
        for shard, part in map(self.homes.__getitem__, wanted):
            yield from self._read(shard, part, max(1, request.block_bytes // _BYTES_PER_TOKEN))

    def _read(self, shard: int, part: int | None, at_once: int) -> Iterator[Block]:
        """Yield the documents of a shard, or of one part of its unit with their row numbers and ids."""
        shards = self.dataset.shards
        entry, names, left_out = shards.entries[shard], None, 0
        mine = rows = np.arange(entry.documents)
        if part is not None:
            with read_origins(shards.path(entry.file(PROVENANCE))) as table:
                mine = np.flatnonzero(table["part"].to_numpy() == part)
                rows = table["row"].to_numpy()[mine]
                if table["id"].null_count < len(table):
                    names = table["id"].take(mine).combine_chunks()
            counts = Records(self.dataset).read_counts(entry.name) or ()
            left_out = max(0, counts[part] - len(mine)) if part < len(counts) else 0
        begin, end = (int(mine[0]), int(mine[-1]) + 1) if len(mine) else (0, 0)
        for first, ids, offsets in shards.read_documents(shard, at_once):
            low, high = max(first, begin), min(first + len(offsets) - 1, end)
            if low < high:
                some, here = offsets[low - first : high - first + 1], slice(low - begin, high - begin)
                batch = _strip_markers(self.dataset, ids[some[0] : some[-1]], some - some[0])
                texts = _decode(self.tokenizer, batch)
                block = Block(texts, rows[here], None if names is None else names[here])
                yield replace(block, bytes_read=texts.nbytes, rows_read=len(texts))
        yield Block(rows_read=left_out)


def _strip_markers(dataset: Dataset, ids: NDArray[Any], offsets: NDArray[np.int64]) -> TokenBatch:
    """Return the documents without BOS and EOS, which every document has if the dataset has them."""
    kept, count, packing = np.ones(len(ids), bool), np.arange(len(offsets)), dataset.manifest.packing
    for marker, places in ((packing.bos_id, offsets[:-1]), (packing.eos_id, offsets[1:] - 1)):
        if marker is not None:
            kept[places] = False
            offsets = offsets - count
    return TokenBatch(ids[kept], offsets)


def _decode(tokenizer: Tokenizer, batch: TokenBatch) -> Texts:
    return Texts.from_arrow(pa.array(tokenizer.decode_batch(batch), pa.large_string()))


def _count_changed(dataset: Dataset, tokenizer: Tokenizer, special: Special) -> int:
    """Return the number of documents whose text the old tokenizer encodes to other ids."""
    changed = 0
    # With a token that strips spaces, equal ids do not prove equal text.
    stripping = [token.id for token in tokenizer.recipe.added if token.lstrip or token.rstrip]
    for shard in range(len(dataset.shards.entries)):
        for _, ids, offsets in dataset.shards.read_documents(shard):
            batch = _strip_markers(dataset, ids, offsets)
            again = tokenizer.encode_batch(_decode(tokenizer, batch), special=special)
            if not np.array_equal(again.ids, batch.ids) or np.isin(batch.ids, stripping).any():
                pairs = zip(again, batch, strict=True)
                changed += sum(
                    not np.array_equal(new, old) or bool(np.isin(old, stripping).any()) for new, old in pairs
                )
    return changed


def _make_inputs(dataset: Dataset, tokenizer: Tokenizer) -> tuple[list[DecodedInput], dict[str, Any]]:
    """Return the inputs of the new job, and the settings that reproduce the units of the dataset.

    With provenance these are the original inputs, otherwise one for each shard.
    """
    records, config = Records(dataset), dataset.manifest.config
    plan = records.plan if records.kept else None
    inputs = []
    if plan is None:
        for number, entry in enumerate(dataset.manifest.shards):
            name = f"{number:08d}{entry.file('tokens').sha256[:24]}"
            size = entry.tokens * _BYTES_PER_TOKEN
            inputs.append(DecodedInput(dataset, tokenizer, f"memory:data:{name[:16]}", name, size))
            inputs[-1].homes[Range("file", 0, size, size)] = (number, None)
        return inputs, {"unit_bytes": 1}
    for file in plan.inputs:
        name = f"{file.identity} {dataset.content_hash[:16]}"
        inputs.append(DecodedInput(dataset, tokenizer, file.url, name, file.size))
    for unit in plan.units:
        for nth, part in enumerate(unit.parts):
            inputs[part.input].homes[part.range] = (unit.ordinal, nth)
    shards = config.get("output.num_shards")
    units = {"unit_bytes": plan.unit_bytes} if shards is None else {"num_shards": shards}
    return inputs, {"provenance": True, **units}


_TOKEN_FILTERS = ("min_tokens", "max_tokens")


def transcode(
    dataset: str | Path,
    tokenizer: str | Path | Tokenizer,
    output: str | Path,
    *,
    old_tokenizer: str | Path | Tokenizer | None = None,
    **options: Any,
) -> Dataset:
    """Write the documents of `dataset` with the ids of another tokenizer.

    >>> import tempfile, tokenmill
    >>> train = tokenmill.train_from_iterator
    >>> small, large = (train(["low lower"] * 9, size, progress=False) for size in (259, 263))
    >>> folder = tempfile.mkdtemp()
    >>> made = tokenmill.prepare(dataset=["lower"], tokenizer=small, output=f"{folder}/a", report=False)
    >>> again = tokenmill.transcode(f"{folder}/a", large, f"{folder}/b", old_tokenizer=small, report=False)
    >>> large.decode(again[0], skip_special_tokens=True)
    'lower'

    Args:
        dataset: A finished dataset.
        tokenizer: The new tokenizer, or an argument of `Tokenizer.load`.
        output: The directory of the new dataset.
        old_tokenizer: The tokenizer of `dataset`, if it has moved.
        **options: Settings of `prepare` that concern speed and logs, such as `threads`.

    Returns:
        The new dataset, equal to one prepared from the raw text.

    Raises:
        DatasetError: The text cannot be recovered from the old ids (a normalizer, unknown tokens).
    """
    source = open_dataset(dataset)
    if old_tokenizer is not None and not isinstance(old_tokenizer, Tokenizer):
        old_tokenizer = Tokenizer.load(old_tokenizer)
    old: Tokenizer = load_dataset_tokenizer(source.address, source.manifest, old_tokenizer)
    new = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
    manifest, packing = source.manifest, source.manifest.packing
    special = manifest.config.get("tokenizer.special", "text")
    reason = next(_list_losses(source, old, new), None)
    if reason is None and (changed := _count_changed(source, old, special)):
        reason = f"{changed:,} of its documents decode to a text that its tokenizer encodes to other ids"
    if reason is not None:
        raise DatasetError(
            f"{source.address} cannot be transcoded: {reason}; prepare it from the raw text instead"
        )
    inputs, units = _make_inputs(source, old)
    settings = {
        **({} if packing.view is None else packing.view.to_settings()),
        "format": manifest.format,
        "special": special,
        **_choose_markers(packing, old, new),
        **{key: manifest.config.get(f"filter.{key}") for key in _TOKEN_FILTERS},
        "drop_blank": False,
        **units,
    }
    made = prepare(dataset=inputs, tokenizer=new, output=str(output), **settings, **options)
    assert isinstance(made, Dataset), "the inputs have no splits"
    return made


def _list_losses(source: Dataset, old: Tokenizer, new: Tokenizer) -> Iterator[str]:
    """Yield the reasons that the raw text cannot be recovered from the ids."""
    account, recipe, model = source.manifest.account, old.recipe, old.recipe.model
    if source.has_loss_mask:
        yield "it contains conversations, whose control tokens belong to the old tokenizer"
    if account.replaced.total():
        yield "some of its records were changed when they were read (--on-error replace)"
    if dropped := sum(account.documents_dropped[key] for key in _TOKEN_FILTERS):
        yield f"{dropped:,} documents were left out by their number of tokens, which changes"
    if model is None or not old.engine.takes_parts:
        yield f"its tokenizer runs on the {old.strategy.name} engine ({old.strategy.reason})"
        return
    kinds = {str(step.get("type")) for step in walk(recipe.normalizer)}
    if kinds and (kinds != {"NFC"} or recipe.normalizer != new.recipe.normalizer):
        yield f"its tokenizer has the normalizer {', '.join(sorted(kinds))}, which the new one does not share"
    if model.kind != "bytes" or model.end_of_word_suffix:
        yield "its tokenizer spells words with markers, so its ids do not keep every space"
    if len({token for token in model.tokens if token is not None and len(token) == 1}) < 256:
        yield "its tokenizer lacks some of the 256 bytes, so text may be missing"
    steps = walk(recipe.pre_tokenizer)
    if any(step.get("add_prefix_space") or step.get("behavior") == "Removed" for step in steps):
        yield "the pre-tokenizer of its tokenizer adds or removes text"


def _choose_markers(packing: PackingIdentity, old: Tokenizer, new: Tokenizer) -> dict[str, Any]:
    """Return the BOS and EOS settings, by string if the new tokenizer has the token, else by role."""
    strings = {token: string for string, token in old.special_tokens.items()}
    settings: dict[str, Any] = {}
    for key, token in (("bos", packing.bos_id), ("eos", packing.eos_id)):
        string = None if token is None else strings.get(token)
        settings[key] = False if token is None else string if string in new.special_tokens else True
    pad = strings.get(packing.pad_id) if packing.pad_id is not None else None
    return settings | ({"pad_token": pad} if pad in new.special_tokens else {})
