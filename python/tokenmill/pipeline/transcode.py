"""`tokenmill dataset transcode`: write a dataset with the ids of another tokenizer, without the raw text.

The documents of the old dataset are decoded while they are read, and then prepared as usual. Units, receipts,
resuming, the account and the bytes are the same as for `prepare`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
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
from tokenmill.sources.model import Block, Known, Range
from tokenmill.tokenizer.engines.backend import Special
from tokenmill.tokenizer.files.hf import walk
from tokenmill.tokenizer.recipe import Model, Recipe
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.extension import PairSet, find_added_pairs
from tokenmill.vocab.words import spell_tokens

# Estimated bytes of text per token, for the plan.
_BYTES_PER_TOKEN = 4


class DocumentDecoder:
    """Decode the documents of one dataset.

    `joins` are the pairs of ids that the new tokenizer merges if it extends the old one. A document without
    such a pair keeps its ids and is not encoded again.
    """

    def __init__(self, dataset: Dataset, tokenizer: Tokenizer, joins: PairSet | None) -> None:
        self.dataset = dataset
        self._tokenizer = tokenizer
        self._joins = joins
        self._widths = np.array([len(token) for token in spell_tokens(tokenizer)], np.int64)
        for token in tokenizer.recipe.added:
            self._widths[token.id] = len(token.content.encode())

    def read_blocks(self, shard: int, part: int | None, block_bytes: int) -> Iterator[Block]:
        """Yield the documents of a shard, or of one part of its unit with their row numbers."""
        at_once = max(1, block_bytes // _BYTES_PER_TOKEN)
        if part is None:
            for first, ids, offsets in self.dataset.shards.read_documents(shard, at_once):
                yield self._decode_block(ids, offsets, np.arange(first, first + len(offsets) - 1), None)
            return
        shards = self.dataset.shards
        with read_origins(shards.path(shards.entries[shard].file(PROVENANCE))) as table:
            mine = np.flatnonzero(table["part"].to_numpy() == part)
            begin, end = (int(mine[0]), int(mine[-1]) + 1) if len(mine) else (0, 0)
            rows = table["row"].to_numpy()
            names = None if table["id"].null_count == len(table) else table["id"]
            for first, ids, offsets in self.dataset.shards.read_documents(shard, at_once):
                low, high = max(first, begin), min(first + len(offsets) - 1, end)
                if low < high:
                    some = offsets[low - first : high - first + 1]
                    name = None if names is None else names.slice(low, high - low).combine_chunks()
                    yield self._decode_block(ids[some[0] : some[-1]], some - some[0], rows[low:high], name)
        counts = Records(self.dataset).read_counts(shards.entries[shard].name) or ()
        yield Block(rows_read=max(0, counts[part] - len(mine)) if part < len(counts) else 0)

    def _decode_block(
        self, ids: NDArray[Any], offsets: NDArray[np.int64], rows: NDArray[np.int64], names: Any
    ) -> Block:
        bare, ends, texts = self._decode(ids, offsets)
        known = None
        if self._joins is not None:
            frame = self.dataset.manifest.packing.bos_id, self.dataset.manifest.packing.eos_id
            known = Known(ids, offsets, self._joins.occurs_in(bare, ends), frame)
        return Block(texts, rows, names, bytes_read=texts.nbytes, rows_read=len(offsets) - 1, known=known)

    def _decode(
        self, ids: NDArray[Any], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.int64], Texts]:
        """Return ids and offsets without BOS and EOS, and the texts."""
        bare, ends = self._strip_markers(ids, offsets)
        bounds = np.concatenate([[0], np.cumsum(self._widths[bare])])
        texts = Texts(self._tokenizer.decode_bytes(bare), np.ascontiguousarray(bounds[ends], np.int64))
        return bare, ends, texts

    def count_changed(self, special: Special) -> int:
        """Return the number of documents whose text the old tokenizer encodes to other ids."""
        changed = 0
        stripping = [token.id for token in self._tokenizer.recipe.added if token.lstrip or token.rstrip]
        for shard in range(len(self.dataset.shards.entries)):
            for _, ids, offsets in self.dataset.shards.read_documents(shard):
                bare, ends, texts = self._decode(ids, offsets)
                again = self._tokenizer.encode_batch(texts, special=special)
                # With a token that strips spaces, equal ids do not prove equal text.
                same = np.array_equal(again.offsets, ends) and np.array_equal(again.ids, bare)
                if same and not np.isin(bare, stripping).any():
                    continue
                for nth, (start, end) in enumerate(pairwise(ends.tolist())):
                    same = np.array_equal(again[nth], bare[start:end])
                    changed += not same or bool(np.isin(bare[start:end], stripping).any())
        return changed

    def _strip_markers(
        self, ids: NDArray[Any], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return ids and offsets without BOS and EOS."""
        packing = self.dataset.manifest.packing
        starts, stops = offsets[:-1].copy(), offsets[1:].copy()
        drop = np.zeros(len(ids), bool)
        if packing.bos_id is not None:
            held = np.flatnonzero(stops > starts)
            held = held[ids[starts[held]] == packing.bos_id]
            drop[starts[held]] = True
            starts[held] += 1
        if packing.eos_id is not None:
            held = np.flatnonzero(stops > starts)
            held = held[ids[stops[held] - 1] == packing.eos_id]
            drop[stops[held] - 1] = True
            stops[held] -= 1
        if not drop.any():
            return ids, offsets
        return ids[~drop], np.concatenate([[0], np.cumsum(stops - starts)]).astype(np.int64)


class DecodedInput(MemoryInput):
    """One input of the new job: its ranges, each with the old shard and the part of its unit."""

    def __init__(self, decoder: DocumentDecoder, url: str, name: str, size: int) -> None:
        self.decoder = decoder
        self.url = url
        self.name = name
        self.size = size
        self.homes: dict[Range, tuple[int, int | None]] = {}

    @property
    def ranges(self) -> list[Range]:
        """Return the ranges in the order in which they were added."""
        return list(self.homes)

    def identity(self) -> str:
        """Return a string that changes with the content."""
        return self.name

    def sample(self) -> list[Any]:
        """Return one text as a sample record."""
        return [""]

    def blocks(self, request: Request, start: int, stop: int | None, /) -> Iterator[Block]:
        """Yield the documents of the requested range, or all of them."""
        del start, stop
        wanted = [request.part] if request.part in self.homes else self.ranges
        for shard, part in map(self.homes.__getitem__, wanted):
            yield from self.decoder.read_blocks(shard, part, request.block_bytes)


def decode_by_shard(decoder: DocumentDecoder) -> list[DecodedInput]:
    """Return each shard as a separate input."""
    made = []
    for number, entry in enumerate(decoder.dataset.manifest.shards):
        name = f"{number:08d}{entry.file('tokens').sha256[:24]}"
        size = entry.tokens * _BYTES_PER_TOKEN
        made.append(DecodedInput(decoder, f"memory:data:{name[:16]}", name, size))
        made[-1].homes[Range("file", 0, size, size)] = (number, None)
    return made


@dataclass(frozen=True)
class ByInput:
    """The original inputs, and the settings that reproduce their units."""

    parts: list[DecodedInput]
    units: dict[str, Any]


def decode_by_input(decoder: DocumentDecoder) -> ByInput | None:
    """Return the inputs of the dataset by its provenance, or None if they are not known."""
    records = Records(decoder.dataset)
    plan = records.plan if records.kept else None
    if plan is None:
        return None
    inputs = [
        DecodedInput(decoder, file.url, f"{file.identity} {decoder.dataset.content_hash[:16]}", file.size)
        for file in plan.inputs
    ]
    for unit in plan.units:
        for nth, part in enumerate(unit.parts):
            inputs[part.input].homes[part.range] = (unit.ordinal, nth)
    shards = decoder.dataset.manifest.config.get("output.num_shards")
    return ByInput(inputs, {"unit_bytes": plan.unit_bytes} if shards is None else {"num_shards": shards})


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
    _refuse(source, _explain_loss(source, old, new))
    manifest = source.manifest
    packing = manifest.packing
    markers = _choose_markers(packing, old, new)
    filters = {key: manifest.config.get(f"filter.{key}") for key in _TOKEN_FILTERS}
    # With a token filter, every document must be encoded again.
    joins = find_added_pairs(old, new) if not any(filters.values()) else None
    decoder = DocumentDecoder(source, old, joins)
    changed = decoder.count_changed(manifest.config.get("tokenizer.special", "text"))
    if changed:
        _refuse(
            source, f"{changed:,} of its documents decode to a text that its tokenizer encodes to other ids"
        )
    by_input = decode_by_input(decoder)
    settings = {
        **({} if packing.view is None else packing.view.to_settings()),
        "format": manifest.format,
        "special": manifest.config.get("tokenizer.special", "text"),
        **markers,
        **filters,
        "drop_blank": False,
        # One unit, and so one shard, for each shard of the old dataset.
        "unit_bytes": 1,
    }
    if by_input is not None:
        settings |= {"provenance": True, **by_input.units}
    parts = decode_by_shard(decoder) if by_input is None else by_input.parts
    made = prepare(dataset=parts, tokenizer=new, output=str(output), **settings, **options)
    assert isinstance(made, Dataset), "the parts have no splits"
    return made


def _refuse(source: Dataset, reason: str | None) -> None:
    if reason is not None:
        raise DatasetError(
            f"{source.address} cannot be transcoded: {reason}; prepare it from the raw text instead"
        )


def _explain_loss(source: Dataset, old: Tokenizer, new: Tokenizer) -> str | None:
    """Return the reason that the raw text cannot be recovered from the ids, or None."""
    account = source.manifest.account
    replaced = account.to_json().get("replaced")
    by_tokens = sum(account.documents_dropped[key] for key in _TOKEN_FILTERS)
    for applies, reason in (
        (source.has_loss_mask, "it contains conversations, whose control tokens belong to the old tokenizer"),
        (replaced, "some of its records were changed when they were read (--on-error replace)"),
        (by_tokens, f"{by_tokens:,} documents were left out by their number of tokens, which changes"),
    ):
        if applies:
            return reason
    if old.recipe.model is None or not old.engine.takes_parts:
        return f"its tokenizer runs on the {old.strategy.name} engine ({old.strategy.reason})"
    return _explain_lossy_model(old.recipe, old.recipe.model, new.recipe)


def _explain_lossy_model(old: Recipe, model: Model, new: Recipe) -> str | None:
    kinds = {str(step.get("type")) for step in walk(old.normalizer)}
    single = {token for token in model.tokens if token is not None and len(token) == 1}
    steps = [
        step
        for step in walk(old.pre_tokenizer)
        if step.get("add_prefix_space") or step.get("behavior") == "Removed"
    ]
    for applies, reason in (
        (
            kinds and (kinds != {"NFC"} or old.normalizer != new.normalizer),
            f"its tokenizer has the normalizer {', '.join(sorted(kinds))}, which the new one does not share",
        ),
        (
            model.kind != "bytes" or model.end_of_word_suffix,
            "its tokenizer spells words with markers, so its ids do not keep every space",
        ),
        (len(single) < 256, "its tokenizer lacks some of the 256 bytes, so text may be missing"),
        (steps, "the pre-tokenizer of its tokenizer adds or removes text"),
    ):
        if applies:
            return reason
    return None


def _choose_markers(packing: PackingIdentity, old: Tokenizer, new: Tokenizer) -> dict[str, Any]:
    """Return the BOS and EOS settings, by string if the new tokenizer has the token, else by role."""
    strings = {token: string for string, token in old.special_tokens.items()}
    settings: dict[str, Any] = {}
    for key, token in (("bos", packing.bos_id), ("eos", packing.eos_id)):
        string = None if token is None else strings.get(token)
        settings[key] = False if token is None else string if string in new.special_tokens else True
    pad = strings.get(packing.pad_id) if packing.pad_id is not None else None
    return settings | ({"pad_token": pad} if pad in new.special_tokens else {})
