"""Data that is already in memory, given the shape of inputs: data sets, Arrow tables, any iterable.

While it is attached, an object has a URL (`memory:train:…`) under which the process can read it like a
file. Arrow data, Hugging Face data sets and lists are cut into ranges of rows; what can only be
walked once is one range.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from tokenmill.base.errors import InputError
from tokenmill.sources.model import MEMORY, InputFile
from tokenmill.sources.records import Origin, Places, as_block, json_reader
from tokenmill.sources.tables import block_of, slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.sources.fields import Request
    from tokenmill.sources.model import Block

_SAMPLE = 100


class _Data(Protocol):
    """One attached object."""

    @property
    def rows(self) -> int | None:
        """How many records; None if they can only be walked."""

    @property
    def size(self) -> int:
        """About how many bytes."""

    def identity(self) -> str:
        """Something that changes with the content."""

    def sample(self) -> list[Any]:
        """The first records, to choose the text field from; each a dict or a str."""

    def blocks(self, request: Request, start: int, stop: int | None) -> Iterator[Block]:
        """The blocks of a range of rows."""


_ATTACHED: dict[str, _Data] = {}


@contextmanager
def attached(data: Any) -> Iterator[list[InputFile]]:
    """The inputs that an object in memory amounts to, one for each split, for as long as they are used.

    >>> with attached(["a", "b"]) as files:
    ...     [file.url.rpartition(":")[0] for file in files]
    ['memory:data']
    """
    found: dict[str, _Data] = {}
    files = []
    for split, part in _splits(data).items():
        wrapped = _wrap(part)
        identity = wrapped.identity()
        # By content, so that the same data has the same name in every run.
        file = InputFile(
            f"memory:{split or 'data'}:{identity[:16]}", wrapped.size, identity, MEMORY, split=split
        )
        found[file.url] = wrapped
        files.append(file)
    _ATTACHED.update(found)
    try:
        yield files
    finally:
        for url, wrapped in found.items():
            if _ATTACHED.get(url) is wrapped:
                del _ATTACHED[url]


def row_count(file: InputFile) -> int | None:
    """How many rows an attached object has; None if it can only be walked."""
    return _data(file).rows


def sample(file: InputFile) -> list[Any]:
    """The first records of an attached object."""
    return _data(file).sample()


def memory_blocks(request: Request) -> Iterator[Block]:
    """Blocks of a range of rows of an attached object."""
    part = request.part
    stop = part.stop if part.kind == "rows" else None
    yield from _data(request.file).blocks(request, part.start, stop)


def _data(file: InputFile) -> _Data:
    if file.url not in _ATTACHED:
        raise InputError(
            f"{file.url}: this input lives in the memory of the process that started the job and cannot be "
            "read here; save it to files first, for example with save_to_disk"
        )
    return _ATTACHED[file.url]


def _splits(data: Any) -> dict[str | None, Any]:
    """A `DatasetDict` (a dict of data sets) has named parts; everything else is one."""
    if isinstance(data, Mapping) and data and all(hasattr(part, "features") for part in data.values()):
        return {str(name): part for name, part in data.items()}
    return {None: data}


def _wrap(data: Any) -> _Data:
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return _Table(pa.table({"text": data}))
    if isinstance(data, pa.RecordBatch):
        return _Table(pa.Table.from_batches([data]))
    if isinstance(data, pa.Table):
        return _Table(data)
    if hasattr(data, "features") and hasattr(data, "with_format") and hasattr(data, "__getitem__"):
        return _HfDataset(data)
    if isinstance(data, Mapping):
        return _Table(pa.table(dict(data)))
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise InputError(
            f"{type(data).__name__} is not a set of documents; give a path, a Hugging Face Dataset or "
            "DatasetDict, an Arrow table or array, or an iterable of strings or of dicts"
        )
    return _Sequence(data) if isinstance(data, list | tuple) else _Iterable(data)


class _Table:
    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.rows = table.num_rows
        self.size = table.nbytes

    def identity(self) -> str:
        digest = hashlib.blake2b(str(self.table.schema).encode(), digest_size=16)
        for batch in self.table.to_batches():
            # Written through Arrow, so that a slice is hashed by what it shows.
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            digest.update(sink.getvalue())
        return digest.hexdigest()

    def sample(self) -> list[Any]:
        return list(self.table.slice(0, _SAMPLE).to_pylist())

    def blocks(self, request: Request, start: int, stop: int | None) -> Iterator[Block]:
        row = 0
        roots = [name for name in request.fields.roots if name in self.table.column_names]
        for batch in (
            self.table.slice(start, (self.rows if stop is None else stop) - start).select(roots).to_batches()
        ):
            for piece in slices(batch, request.block_bytes):
                yield block_of(piece, request, row, lambda: start)
                row += piece.num_rows


class _HfDataset:
    """A data set of `datasets`, through its own methods, so that selections and shuffles hold."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.rows = len(data)
        stored = data.data
        self.size = int(stored.nbytes * self.rows / max(stored.num_rows, 1))

    def identity(self) -> str:
        # A data set computes its fingerprint from where its data came from and what was done to it.
        return str(getattr(self.data, "_fingerprint", None) or uuid.uuid4().hex)

    def sample(self) -> list[Any]:
        return list(self.data.with_format("arrow")[: min(_SAMPLE, self.rows)].to_pylist())

    def blocks(self, request: Request, start: int, stop: int | None) -> Iterator[Block]:
        stop = self.rows if stop is None else stop
        roots = [name for name in request.fields.roots if name in self.data.column_names]
        arrow = self.data.select_columns(roots).with_format("arrow")
        step = max(int(request.block_bytes * self.rows / max(self.size, 1)), 1)
        for first in range(start, stop, step):
            for batch in arrow[first : min(first + step, stop)].combine_chunks().to_batches():
                yield block_of(batch, request, first - start, lambda: start)


@dataclass(slots=True)
class _Iterable:
    """Strings or dicts, one at a time; they go through the JSON reader, so that its rules hold here too."""

    data: Iterable[Any]
    rows: int | None = None
    size: int = 0

    def identity(self) -> str:
        return uuid.uuid4().hex  # what is walked once can be no one's old result

    def sample(self) -> list[Any]:
        walk = iter(self.data)
        first = list(islice(walk, _SAMPLE))
        if walk is self.data or iter(self.data) is walk:
            self.data = chain(first, walk)
        return first

    def blocks(self, request: Request, start: int, stop: int | None) -> Iterator[Block]:
        yield from _record_blocks(islice(iter(self.data), start, stop), request)


class _Sequence:
    def __init__(self, data: list[Any] | tuple[Any, ...]) -> None:
        self.data = data
        self.rows = len(data)
        self.size = sum(len(item) for item in data if isinstance(item, str)) or len(data)

    def identity(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for item in self.data:
            digest.update(_line(item, None))
        return digest.hexdigest()

    def sample(self) -> list[Any]:
        return list(self.data[:_SAMPLE])

    def blocks(self, request: Request, start: int, stop: int | None) -> Iterator[Block]:
        yield from _record_blocks(islice(self.data, start, stop), request)


def _line(item: Any, roots: list[str] | None) -> bytes:
    """One record as a line of JSON, with the wanted fields only; a string is a record with a text."""
    if isinstance(item, str):
        item = {roots[0] if roots else "text": item}
    elif isinstance(item, Mapping):
        item = {name: item[name] for name in (item if roots is None else roots) if name in item}
    return json.dumps(item, default=str).encode() + b"\n"


def _record_blocks(items: Iterator[Any], request: Request) -> Iterator[Block]:
    reader, places, roots = json_reader(request), Places(request.file), request.fields.roots
    rows = 0
    while True:
        block = bytearray()
        for item in items:
            block += _line(item, roots)
            if len(block) >= request.block_bytes:
                break
        if not block:
            return
        yield as_block(request, reader.read(block), Origin(places, rows, 0, len(block)), "json")
        rows += block.count(b"\n")
