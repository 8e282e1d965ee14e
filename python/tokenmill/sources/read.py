"""Read a range of an input as blocks of documents, and apply `on_error` to bad records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.errors import TokenmillError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources.fields import Request, make_fields
from tokenmill.sources.model import MEMORY, Block, FileFaultError, InputFile, Range, explain_refusal
from tokenmill.sources.raw import require_unchanged
from tokenmill.sources.records import BOM
from tokenmill.sources.sniff import get_reader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_BLOCK_BYTES = 4 << 20
# Files up to this size may be read many at once.
SMALL = 1 << 16
# Limits of `read_first_documents`: files, bytes per block and per file, characters per document.
_LOOK_FILES = 8
_LOOK_BLOCK_BYTES = 1 << 18
_LOOK_BYTES = 1 << 19
LONGEST = 1 << 16


def cut_ranges(file: InputFile, unit_bytes: int) -> list[Range]:
    """Cut an input into ranges of about `unit_bytes`, in file order; they cover it exactly.

    A plain file of lines is cut at any byte (a record belongs to the range it starts in), Parquet between
    row groups, Arrow files between record batches. Other inputs are one range.
    """
    try:
        found: list[Range] | None = get_reader(file).cut(file, unit_bytes)
    except FileFaultError:
        found = None  # reading it raises the same error, to which `on_error` applies
    return [Range("file", 0, file.size, file.size)] if found is None else found


def read_blocks(
    file: InputFile,
    part: Range,
    config: SourceConfig,
    *,
    block_bytes: int = DEFAULT_BLOCK_BYTES,
    columns: Sequence[str] = (),
    parts: bool = False,
) -> Iterator[Block]:
    """Yield blocks of about `block_bytes` of text, in file order; `columns` are read for a predicate.

    If `on_error` is `fail`, the first bad record or a fault of the file raises `InputError`. Otherwise both
    are counted, and documents read before a fault are kept. A fault of the machine always raises
    `InputUnavailableError`, and an input that is not the planned one `ChangedInputError`.
    """
    request = Request(file, part, config, make_fields(config, columns), block_bytes, parts)
    try:
        with require_unchanged(file):
            for block in get_reader(file).read(request):
                if block.rejects and config.on_error == "fail":
                    raise explain_refusal(block.rejects[0])
                yield block
                del block
    except FileFaultError as fault:
        if config.on_error == "fail":
            raise
        yield Block(rejects=(fault.reject,), refused={fault.reject.reason: 1})


def is_small(file: InputFile, config: SourceConfig) -> bool:
    """Return True if a file is one document that can be read together with its neighbours."""
    plain = file.format == "txt" and file.txt_mode == "file" and file.compression is None and file.local
    return plain and 0 < file.size <= min(SMALL, config.max_record_bytes)


def read_together(files: Sequence[InputFile]) -> tuple[Block, NDArray[np.int32]]:
    """Read small files in one call of the core: a block of documents and the file number of each.

    A file that is missing or changed, is not UTF-8 or has a byte order mark is left out. The caller reads
    it with `read_blocks`, which reports the error.
    """
    import numpy as np

    data, offsets, about = _core.read_small([file.url for file in files], SMALL)
    good = np.array(
        [
            size >= 0 and f"{size}-{modified}" == file.identity and data[start : start + 3] != BOM
            for file, (size, modified, _), start in zip(
                files, np.asarray(about).reshape(-1, 3).tolist(), offsets, strict=False
            )
        ]
    )
    good[[row for row, _ in _core.invalid_rows(data, np.asarray(offsets))]] = False
    texts = Texts(data, offsets).filter(good)
    rows = np.zeros(len(texts), np.int64)
    block = Block(texts, rows, bytes_read=texts.nbytes, rows_read=len(texts))
    return block, np.flatnonzero(good).astype(np.int32)


class FirstDocuments(NamedTuple):
    """The beginnings of some documents, their average size, and the number of records if all were read."""

    texts: list[str]
    average_bytes: float | None
    records: int | None


def read_first_documents(files: Sequence[InputFile], source: SourceConfig, most: int = 512) -> FirstDocuments:
    """Read up to `most` valid documents, some from each of up to eight files spread over the list."""
    chosen = files[:: max(1, len(files) // _LOOK_FILES)][:_LOOK_FILES]
    lenient = replace(source, on_error="replace")
    texts: list[str] = []
    total = records = ended = 0
    for file in chosen:
        if file.format == MEMORY and cut_ranges(file, 1 << 62)[0].kind == "file":
            continue  # it can be iterated only once, which is left to the job
        wanted, seen = len(texts) + max(1, most // len(chosen)), 0
        whole = Range("file", 0, file.size, file.size)
        with suppress(TokenmillError, OSError):
            for block in read_blocks(file, whole, lenient, block_bytes=_LOOK_BLOCK_BYTES, parts=True):
                some = block.texts.slice(0, wanted - len(texts))
                texts += [some.read_start(place, LONGEST) for place in range(len(some))]
                total += max(some.nbytes, file.size if block.goes_on else 0)
                seen += block.bytes_read
                records += block.rows_read
                if block.goes_on or len(texts) >= wanted or seen >= _LOOK_BYTES:
                    break
            else:
                ended += 1
    average = total / len(texts) if texts else None
    return FirstDocuments(texts, average, records if ended == len(files) else None)


def count_rows(files: Sequence[InputFile]) -> int | None:
    """Return the number of records of Parquet files and data in memory, or None if reading is required."""
    if not all(file.format in {"parquet", MEMORY} for file in files):
        return None
    try:
        counts: list[int | None] = [get_reader(file).count_rows(file) for file in files]
    except FileFaultError:
        return None
    return None if None in counts else sum(filter(None, counts))
