"""Read data in memory: Hugging Face datasets, Arrow tables, lists and other iterables.

While it is attached, an object has a URL (`memory:train:…`) under which this process reads it like a file.
Tables and lists are cut into ranges of rows; other iterables are one range.
"""

from __future__ import annotations

import hashlib
import sys
import uuid
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate, chain, islice
from typing import Any

import numpy as np
import pyarrow as pa

from tokenmill.base.texts import Texts
from tokenmill.errors import InputError
from tokenmill.sources.columnar import read_batches
from tokenmill.sources.fields import SAMPLE_RECORDS, Request, collect_fields
from tokenmill.sources.model import MEMORY, Block, InputFile, Range, cut_equally
from tokenmill.sources.records import make_json_reader, records_to_block, row_to_json


class MemoryInput:
    """One object in memory that is read like a file; it may define its own `url` and `ranges`.

    `rows` is None if the records can only be iterated. `identity` changes with the content. Fields are
    inferred from the records of `sample`, and `blocks` reads a range of rows.
    """

    rows: int | None = None
    size: int = 0
    url: str | None = None
    identity: Callable[[], str]
    sample: Callable[[], list[Any]]
    blocks: Callable[[Request, int, int | None], Iterator[Block]]


_ATTACHED: dict[str, MemoryInput] = {}


@contextmanager
def attach(data: Any, *, hashed: bool = True) -> Iterator[list[InputFile]]:
    """Yield the inputs of an object in memory, one per split, valid inside the context.

    With `hashed`, which takes a pass over the data, the identity is a hash of the content, so that the same
    data has the same URL in every run.

    >>> with attach(["a", "b"]) as files:
    ...     [file.url.rpartition(":")[0] for file in files]
    ['memory:data']
    """
    files, before = [], dict(_ATTACHED)
    for split, part in _list_splits(data):
        wrapped = _wrap(part)
        identity = wrapped.identity() if hashed else f"{type(part).__name__}, rows: {wrapped.rows}"
        url = wrapped.url or f"memory:{split or 'data'}:{(identity if hashed else uuid.uuid4().hex)[:16]}"
        files.append(InputFile(url, wrapped.size, identity, MEMORY, split=split))
        _ATTACHED[url] = wrapped
    try:
        yield files
    finally:
        for file in files:
            if file.url not in before:
                _ATTACHED.pop(file.url, None)


def cut(file: InputFile, unit_bytes: int) -> list[Range] | None:
    """Return ranges of rows; None for data that can only be iterated."""
    data = _get_data(file)
    if data.rows is not None:
        return cut_equally("rows", data.rows, file.size, unit_bytes)
    return getattr(data, "ranges", None)


def count_rows(file: InputFile) -> int | None:
    """Return the number of records, or None for data that can only be iterated."""
    return _get_data(file).rows


def list_fields(file: InputFile) -> tuple[list[str], list[str]]:
    """Return the string fields of the first records, and all fields; a string is a record with a text."""
    records = [{"text": item} if isinstance(item, str) else item for item in _get_data(file).sample()]
    return collect_fields(
        {name: isinstance(value, str | None) for name, value in record.items()}
        for record in records
        if isinstance(record, dict)
    )


def read(request: Request) -> Iterator[Block]:
    """Yield the blocks of a range of rows of an attached object."""
    part = request.part
    stop = part.stop if part.kind == "rows" else None
    yield from _get_data(request.file).blocks(request, part.start, stop)


def _get_data(file: InputFile) -> MemoryInput:
    if file.url not in _ATTACHED:
        raise InputError(
            f"{file.url}: this input lives in the memory of the process that started the job and cannot be "
            "read here; save it to files first, for example with save_to_disk"
        )
    return _ATTACHED[file.url]


def _is_of_datasets(data: Any, *names: str) -> bool:
    """Return True if an object is of one of these classes of `datasets`; False if it is not imported."""
    module = sys.modules.get("datasets")
    return module is not None and isinstance(data, tuple(getattr(module, name) for name in names))


def _list_splits(data: Any) -> list[tuple[str | None, Any]]:
    if _is_of_datasets(data, "DatasetDict", "IterableDatasetDict"):
        return [(str(name), part) for name, part in data.items()]
    several = isinstance(data, list | tuple) and data and all(isinstance(part, MemoryInput) for part in data)
    return [(None, part) for part in data] if several else [(None, data)]


def _wrap(data: Any) -> MemoryInput:
    if isinstance(data, MemoryInput):
        return data
    if _is_of_datasets(data, "IterableDataset"):
        data = data.with_format(None)
    if isinstance(data, pa.Array | pa.ChunkedArray):
        data = {"text": data}
    if isinstance(data, pa.RecordBatch | Mapping):
        data = pa.table(dict(data) if isinstance(data, Mapping) else data)
    if isinstance(data, pa.Table) or _is_of_datasets(data, "Dataset"):
        return _Table(data)
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise InputError(
            f"{type(data).__name__} is not a collection of documents; pass a path, a Hugging Face Dataset or "
            "DatasetDict, an Arrow table or array, or an iterable of strings or of dicts"
        )
    return _Items(data)


class _Table(MemoryInput):
    """An Arrow table, or a Hugging Face dataset with its selections and shuffles."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self.rows = len(data)
        stored = data if isinstance(data, pa.Table) else data.data
        self.size = int(stored.nbytes * self.rows / max(stored.num_rows, 1))

    def identity(self) -> str:
        if not isinstance(self._data, pa.Table):
            # The fingerprint of a dataset covers its source and its transformations.
            return str(getattr(self._data, "_fingerprint", None) or uuid.uuid4().hex)
        digest = hashlib.blake2b(str(self._data.schema).encode(), digest_size=16)
        for batch in self._data.to_batches():
            # Serialized by Arrow, so that a slice is hashed without the rows around it.
            digest.update(batch.serialize())
        return digest.hexdigest()

    def sample(self) -> list[Any]:
        return list(self._select(self._data.column_names)[:SAMPLE_RECORDS].to_pylist())

    def _select(self, names: list[str]) -> Any:
        if isinstance(self._data, pa.Table):
            return self._data.select(names)
        return self._data.select_columns(names).with_format("arrow")

    def blocks(self, request: Request, start: int, stop: int | None, /) -> Iterator[Block]:
        names = [name for name in self._data.column_names if name in request.fields.roots]
        wanted, places = self._select(names), range(len(self._data))[start:stop]
        step = max(int(request.block_bytes * len(self._data) / max(self.size, 1)), 1)
        parts = (wanted[first : min(first + step, places.stop)] for first in places[::step])
        yield from read_batches((batch for part in parts for batch in part.to_batches()), request)


class _Items(MemoryInput):
    """Strings or dicts: a list of them, or an iterable that is read once from its start."""

    def __init__(self, data: Iterable[Any]) -> None:
        self._data = data
        if isinstance(data, list | tuple):
            self.rows = len(data)
            self.size = sum(len(item) for item in data if isinstance(item, str)) or len(data)

    def identity(self) -> str:
        if self.rows is None:
            return uuid.uuid4().hex
        digest = hashlib.blake2b(digest_size=16)
        for item in self._data:
            digest.update(_to_line(item, None))
        return digest.hexdigest()

    def sample(self) -> list[Any]:
        walk = iter(self._data)
        first = list(islice(walk, SAMPLE_RECORDS))
        # An iterator, or an object that always returns the same one, cannot be iterated again.
        if walk is self._data or iter(self._data) is walk:
            self._data = chain(first, walk)
        return first

    def blocks(self, request: Request, start: int, stop: int | None, /) -> Iterator[Block]:
        """Yield plain strings as they are; other items go through the JSON reader and its checks."""
        fields, limit = request.fields, request.config.max_record_bytes
        reader, roots = make_json_reader(request), fields.roots
        # If only one field is requested, a string is the text.
        alone = not fields.paths and fields.text == ((roots[0],),)
        items, row = islice(iter(self._data), start, stop), 0
        while held := _take(items, request.block_bytes):
            texts = _join_strings(held, limit) if alone else None
            if texts is not None:
                rows = np.arange(row, row + len(held))
                yield Block(texts, rows, bytes_read=texts.nbytes, rows_read=len(held))
            else:
                data = b"".join(_to_line(item, roots) for item in held)
                yield records_to_block(request, reader.read(data), row, (0, len(data)))
            row += len(held)


def _take(items: Iterator[Any], room: int) -> list[Any]:
    """Return the next items of about `room` bytes; 1 KiB is assumed for an item that is not a string."""
    held = []
    for item in items:
        held.append(item)
        room -= 8 + len(item) if isinstance(item, str) else 1024
        if room <= 0:
            break
    return held


def _join_strings(items: list[Any], limit: int) -> Texts | None:
    """Return the texts of plain strings; None if one is not a string, is too long or has a lone surrogate."""
    try:
        data = [item.encode() for item in items]
    except (AttributeError, UnicodeEncodeError):
        return None
    if max(map(len, data)) > limit:
        return None
    return Texts(b"".join(data), array("q", accumulate(map(len, data), initial=0)))


def _to_line(item: Any, roots: list[str] | None) -> bytes:
    """Return one record as a line of JSON with the wanted fields; a string is a record with a text."""
    if isinstance(item, str):
        item = {roots[0] if roots else "text": item}
    elif isinstance(item, Mapping):
        item = {name: item[name] for name in (roots or item) if name in item}
    return row_to_json({} if item is None else item) + b"\n"
