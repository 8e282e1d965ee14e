"""The documents of a dataset as texts again, given the shape of inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.texts import Texts
from tokenmill.datasets.ledger.provenance import read_origins
from tokenmill.datasets.reader.documents import read_documents
from tokenmill.datasets.trace.records import PROVENANCE, Records
from tokenmill.sources.memory import MemoryInput
from tokenmill.sources.model import Block, Known, Range
from tokenmill.vocab.words import spell_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tokenmill.datasets.reader.dataset import Dataset
    from tokenmill.sources.fields import Request
    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.vocab.extension import PairSet

# Bytes of text per token, for the plan; how many there really were is counted when they are read.
_BYTES_PER_TOKEN = 4


class DocumentDecoder:
    """Turns documents of one dataset into texts.

    `joins` are the pairs of ids that the new tokenizer can join where it extends the old one: a document
    without any of them keeps its ids, and is not encoded again.
    """

    def __init__(self, dataset: Dataset, tokenizer: Tokenizer, joins: PairSet | None) -> None:
        self.dataset = dataset
        self._tokenizer = tokenizer
        self._joins = joins
        self._widths = np.array([len(token) for token in spell_tokens(tokenizer)], np.int64)
        for token in tokenizer.recipe.added:
            self._widths[token.id] = len(token.content.encode())

    def read_blocks(self, shard: int, part: int | None, block_bytes: int) -> Iterator[Block]:
        """The documents of a shard, or those of one part of its unit with the rows that they were."""
        at_once = max(1, block_bytes // _BYTES_PER_TOKEN)
        if part is None:
            for first, ids, offsets in read_documents(self.dataset.shards, shard, at_once):
                yield self._decode_block(ids, offsets, np.arange(first, first + len(offsets) - 1), None)
            return
        shards = self.dataset.shards
        with read_origins(shards.path(shards.entries[shard].file(PROVENANCE))) as table:
            mine = np.flatnonzero(table["part"].to_numpy() == part)
            begin, end = (int(mine[0]), int(mine[-1]) + 1) if len(mine) else (0, 0)
            rows = table["row"].to_numpy()
            names = None if table["id"].null_count == len(table) else table["id"]
            for first, ids, offsets in read_documents(self.dataset.shards, shard, at_once):
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
        bare, ends = self._strip_markers(ids, offsets)
        places = np.concatenate([[0], np.cumsum(self._widths[bare])])
        data = self._tokenizer.decode_bytes(bare)
        texts = Texts(data, np.ascontiguousarray(places[ends], np.int64))
        known = None
        if self._joins is not None:
            frame = self.dataset.manifest.packing.bos_id, self.dataset.manifest.packing.eos_id
            known = Known(ids, offsets, self._joins.occurs_in(bare, ends), frame)
        return Block(texts, rows, names, bytes_read=len(data), rows_read=len(offsets) - 1, known=known)

    def _strip_markers(
        self, ids: NDArray[Any], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The ids without the tokens around documents."""
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
    """One input of the new job: some ranges, and the shard and part of its unit that each is read from."""

    def __init__(self, decoder: DocumentDecoder, url: str, name: str, size: int) -> None:
        self.decoder = decoder
        self.url = url
        self.name = name
        self.size = size
        self.homes: dict[Range, tuple[int, int | None]] = {}

    @property
    def ranges(self) -> list[Range]:
        """The ranges, in the order in which they were added."""
        return list(self.homes)

    def identity(self) -> str:
        """Something that changes with the content."""
        return self.name

    def sample(self) -> list[Any]:
        """What a record looks like: a text."""
        return [""]

    def blocks(self, request: Request, start: int, stop: int | None, /) -> Iterator[Block]:
        """The documents of the range that is asked for, or all of them, for a first look."""
        del start, stop
        wanted = [request.part] if request.part in self.homes else self.ranges
        for shard, part in map(self.homes.__getitem__, wanted):
            yield from self.decoder.read_blocks(shard, part, request.block_bytes)


def decode_by_shard(decoder: DocumentDecoder) -> list[DecodedInput]:
    """Each shard as a separate input."""
    made = []
    for number, entry in enumerate(decoder.dataset.manifest.shards):
        name = f"{number:08d}{entry.file('tokens').sha256[:24]}"
        size = entry.tokens * _BYTES_PER_TOKEN
        made.append(DecodedInput(decoder, f"memory:data:{name[:16]}", name, size))
        made[-1].homes[Range("file", 0, size, size)] = (number, None)
    return made


@dataclass(frozen=True)
class ByInput:
    """The original inputs, and the settings by which they make the units that they made."""

    parts: list[DecodedInput]
    units: dict[str, Any]


def decode_by_input(decoder: DocumentDecoder) -> ByInput | None:
    """The inputs that the dataset was made from, by its provenance; None where they are not known."""
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
