"""Strings or records in memory to blocks, one Python object at a time."""

from __future__ import annotations

import hashlib
import json
import uuid
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, islice
from typing import TYPE_CHECKING, Any

from tokenmill.base.texts import Texts
from tokenmill.sources.heads import SAMPLE_RECORDS
from tokenmill.sources.model import Block
from tokenmill.sources.records import RecordOrigin, RecordPlaces, make_json_reader, records_to_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.sources.fields import Request


@dataclass(slots=True)
class ItemStream:
    """Strings or dicts, one at a time."""

    data: Iterable[Any]
    rows: int | None = None
    size: int = 0

    def identity(self) -> str:
        """Something that changes with the content."""
        return uuid.uuid4().hex

    def sample(self) -> list[Any]:
        """The first records."""
        walk = iter(self.data)
        first = list(islice(walk, SAMPLE_RECORDS))
        # An iterator, or what always gives the same one, cannot be iterated again: what was taken goes back.
        if walk is self.data or iter(self.data) is walk:
            self.data = chain(first, walk)
        return first

    def blocks(self, request: Request, start: int, stop: int | None, /) -> Iterator[Block]:
        """The blocks of a range of rows."""
        yield from _read_items(islice(iter(self.data), start, stop), request)


class ListOfItems(ItemStream):
    """A list of them, which can be entered at any place."""

    def __init__(self, data: list[Any] | tuple[Any, ...]) -> None:
        super().__init__(
            data, len(data), sum(len(item) for item in data if isinstance(item, str)) or len(data)
        )

    def identity(self) -> str:
        """Something that changes with the content."""
        digest = hashlib.blake2b(digest_size=16)
        for item in self.data:
            digest.update(_to_line(item, None))
        return digest.hexdigest()


def _to_line(item: Any, roots: list[str] | None) -> bytearray:
    """One record as a line of JSON, with the wanted fields only; a string is a record with a text.

    As in an Arrow column, None is a field that is missing.
    """
    if isinstance(item, str):
        item = {roots[0] if roots else "text": item}
    elif isinstance(item, Mapping):
        item = {name: item[name] for name in (roots or item) if item.get(name) is not None}
    elif item is None:
        item = {}
    return bytearray(json.dumps(item, default=str).encode() + b"\n")


def _read_items(items: Iterator[Any], request: Request) -> Iterator[Block]:
    """Plain strings as they are; all else goes through the JSON reader, so that its rules hold here too."""
    fields, limit = request.fields, request.config.max_record_bytes
    reader, places, roots = make_json_reader(request), RecordPlaces(request.file), fields.roots
    # Where nothing but one field is asked for, a string is the text.
    alone = not fields.paths and fields.text == ((roots[0],),)

    def as_bytes(item: Any) -> bytes | bytearray:
        if alone and isinstance(item, str):
            try:
                data = item.encode()
            except UnicodeEncodeError:  # a lone surrogate
                return _to_line(item, roots)
            if len(data) <= limit:
                return data
        return _to_line(item, roots)

    rows = 0
    for kind, run in groupby(map(as_bytes, items), type):
        while held := _take(run, request.block_bytes):
            data = b"".join(held)
            if kind is bytes:
                texts = Texts(data, array("q", accumulate(map(len, held), initial=0)))
                numbers = memoryview(array("q", range(rows, rows + len(held))))
                yield Block(texts, numbers, bytes_read=len(data), rows_read=len(held))
            else:
                yield records_to_block(
                    request, reader.read(data), RecordOrigin(places, rows, 0, len(data)), "json"
                )
            rows += len(held)


def _take(parts: Iterator[bytes | bytearray], room: int) -> list[bytes | bytearray]:
    """Some of the parts, until they fill the room; an empty one takes some too."""
    held = []
    for part in parts:
        held.append(part)
        room -= len(part) + 8
        if room <= 0:
            break
    return held
