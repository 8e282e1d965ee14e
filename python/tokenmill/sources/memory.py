"""Data that is already in memory, given the shape of inputs: datasets, Arrow tables, any iterable.

While it is attached, an object has a URL (`memory:train:…`) under which the process can read it like a
file. Arrow data, Hugging Face datasets and lists are cut into ranges of rows; what can only be
iterated is one range.
"""

from __future__ import annotations

import sys
import uuid
from abc import ABC
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from tokenmill.errors import InputError
from tokenmill.sources.heads import collect_fields
from tokenmill.sources.memory_items import ItemStream, ListOfItems
from tokenmill.sources.memory_tables import HfDataset, HfStream, Table
from tokenmill.sources.model import MEMORY, InputFile
from tokenmill.sources.ranges import cut_equally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.fields import Request
    from tokenmill.sources.model import Block, Range


class _Data(Protocol):
    """One attached object."""

    @property
    def rows(self) -> int | None:
        """How many records; None if they can only be iterated."""

    @property
    def size(self) -> int:
        """About how many bytes."""

    def identity(self) -> str:
        """Something that changes with the content."""

    def sample(self) -> list[Any]:
        """The first records, to choose the text field from; each a dict or a str."""

    def blocks(self, request: Request, start: int, stop: int | None, /) -> Iterator[Block]:
        """The blocks of a range of rows."""


class Shaped(ABC):
    """An object that says itself what it is called and how it is cut."""

    url: str
    ranges: list[Range]


class Parts(tuple[Any, ...]):
    """Shaped objects that know how to give their blocks; each is an input of its own, in this order."""

    __slots__ = ()


_ATTACHED: dict[str, _Data] = {}


@contextmanager
def attach(data: Any, *, hashed: bool = True) -> Iterator[list[InputFile]]:
    """The inputs that an object in memory amounts to, one for each split, for as long as they are used.

    Their identity is that of the content, so that the same data has the same name in every run; if not
    `hashed`, which takes a pass over it, it only says what kind of object it is.

    >>> with attach(["a", "b"]) as files:
    ...     [file.url.rpartition(":")[0] for file in files]
    ['memory:data']
    """
    found: dict[str, _Data] = {}
    files = []
    for split, part in _list_splits(data):
        wrapped = part if isinstance(data, Parts) else _wrap(part)
        identity = wrapped.identity() if hashed else f"{type(part).__name__}, rows: {wrapped.rows}"
        name = identity[:16] if hashed else uuid.uuid4().hex[:16]
        url = wrapped.url if isinstance(wrapped, Shaped) else f"memory:{split or 'data'}:{name}"
        file = InputFile(url, wrapped.size, identity, MEMORY, split=split)
        found[file.url] = wrapped
        files.append(file)
    _ATTACHED.update(found)
    try:
        yield files
    finally:
        for url, wrapped in found.items():
            if _ATTACHED.get(url) is wrapped:
                del _ATTACHED[url]


def cut_rows(file: InputFile, unit_bytes: int) -> list[Range] | None:
    """Ranges of rows; None for what can only be iterated."""
    data = _find_data(file)
    if isinstance(data, Shaped):
        return data.ranges
    rows = data.rows
    return None if rows is None else cut_equally("rows", rows, file.size, unit_bytes)


def list_memory_fields(file: InputFile, _config: SourceConfig) -> tuple[list[str], list[str]]:
    """The fields of the first records; a string is a record with a text."""
    found = _find_data(file).sample()
    records = ({"text": item} if isinstance(item, str) else item for item in found)
    return collect_fields(
        {name: value is None or isinstance(value, str) for name, value in record.items()}
        for record in records
        if isinstance(record, dict)
    )


def read_memory(request: Request) -> Iterator[Block]:
    """Blocks of a range of rows of an attached object."""
    part = request.part
    stop = part.stop if part.kind == "rows" else None
    yield from _find_data(request.file).blocks(request, part.start, stop)


def _find_data(file: InputFile) -> _Data:
    if file.url not in _ATTACHED:
        raise InputError(
            f"{file.url}: this input lives in the memory of the process that started the job and cannot be "
            "read here; save it to files first, for example with save_to_disk"
        )
    return _ATTACHED[file.url]


def _is_of_datasets(data: Any, *names: str) -> bool:
    """Whether an object is of one of these classes of `datasets`; where it is not loaded, there are none."""
    module = sys.modules.get("datasets")
    return module is not None and isinstance(data, tuple(getattr(module, name) for name in names))


def _list_splits(data: Any) -> list[tuple[str | None, Any]]:
    """A `DatasetDict` has named parts; everything else is one, or several without a name."""
    if _is_of_datasets(data, "DatasetDict", "IterableDatasetDict"):
        return [(str(name), part) for name, part in data.items()]
    return [(None, part) for part in data] if isinstance(data, Parts) else [(None, data)]


def _wrap(data: Any) -> _Data:
    if _is_of_datasets(data, "Dataset"):
        return HfDataset(data)
    if _is_of_datasets(data, "IterableDataset"):
        return HfStream(data)
    if isinstance(data, pa.Array | pa.ChunkedArray):
        data = pa.table({"text": data})
    elif isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif isinstance(data, Mapping):
        data = pa.table(dict(data))
    if isinstance(data, pa.Table):
        return Table(data)
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise InputError(
            f"{type(data).__name__} is not a collection of documents; pass a path, a Hugging Face Dataset or "
            "DatasetDict, an Arrow table or array, or an iterable of strings or of dicts"
        )
    return ListOfItems(data) if isinstance(data, list | tuple) else ItemStream(data)
