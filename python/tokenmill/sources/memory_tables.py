"""Tables in memory to blocks: Arrow's, and Hugging Face datasets through their own methods."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tokenmill.sources.heads import SAMPLE_RECORDS
from tokenmill.sources.tables import batch_to_block, cut_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenmill.sources.fields import Request
    from tokenmill.sources.model import Block

_STREAM_ROWS = 1000


def _read_tables(tables: Iterable[pa.Table], request: Request, start: int) -> Iterator[Block]:
    row = 0
    for table in tables:
        for batch in table.to_batches():
            for piece in cut_batch(batch, request.block_bytes):
                yield batch_to_block(piece, request, row, lambda: start)
                row += piece.num_rows


class Table:
    """An Arrow table."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.rows = table.num_rows
        self.size = table.nbytes

    def identity(self) -> str:
        """Something that changes with the content."""
        digest = hashlib.blake2b(str(self.table.schema).encode(), digest_size=16)
        for batch in self.table.to_batches():
            # Written through Arrow, so that a slice is hashed by what it shows.
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            digest.update(sink.getvalue())
        return digest.hexdigest()

    def sample(self) -> list[Any]:
        """The first records."""
        return list(self.table.slice(0, SAMPLE_RECORDS).to_pylist())

    def blocks(self, request: Request, start: int, stop: int | None, /) -> Iterator[Block]:
        """The blocks of a range of rows."""
        part = self.table.slice(start, (self.rows if stop is None else stop) - start)
        yield from _read_tables([_select(part, part.column_names, request)], request, start)


class HfDataset:
    """A Hugging Face dataset, through its own methods, so that selections and shuffles hold."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.rows = len(data)
        stored = data.data
        self.size = int(stored.nbytes * self.rows / max(stored.num_rows, 1))

    def identity(self) -> str:
        """Something that changes with the content."""
        # A dataset computes its fingerprint from where its data came from and what was done to it.
        return str(getattr(self.data, "_fingerprint", None) or uuid.uuid4().hex)

    def sample(self) -> list[Any]:
        """The first records."""
        return list(self.data.with_format("arrow")[: min(SAMPLE_RECORDS, self.rows)].to_pylist())

    def blocks(self, request: Request, start: int, stop: int | None, /) -> Iterator[Block]:
        """The blocks of a range of rows."""
        stop = self.rows if stop is None else stop
        arrow = _select(self.data, self.data.column_names, request).with_format("arrow")
        step = max(int(request.block_bytes * self.rows / max(self.size, 1)), 1)
        tables = (arrow[first : min(first + step, stop)] for first in range(start, stop, step))
        yield from _read_tables(tables, request, start)


@dataclass(slots=True)
class HfStream:
    """An `IterableDataset`: every pass begins at its first row."""

    data: Any
    rows: None = None
    size: int = 0

    def identity(self) -> str:
        """Something that changes with the content."""
        return uuid.uuid4().hex  # what can only be iterated is never the same as before

    def sample(self) -> list[Any]:
        """The first records."""
        return list(self.data.with_format(None).take(SAMPLE_RECORDS))

    def blocks(self, request: Request, start: int, _stop: int | None, /) -> Iterator[Block]:
        """All blocks: what can only be iterated is one range."""
        wanted = _select(self.data, self.data.column_names or (), request)
        tables = wanted.with_format("arrow").iter(batch_size=_STREAM_ROWS)
        yield from _read_tables(tables, request, start)


def _select(data: Any, names: Iterable[str], request: Request) -> Any:
    """The columns that a job needs, of a table or dataset; all of one that does not say what it has."""
    wanted = [name for name in names if name in request.fields.roots]
    if not names:
        return data
    return data.select(wanted) if isinstance(data, pa.Table) else data.select_columns(wanted)
