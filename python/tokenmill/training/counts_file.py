"""Save and load piece counts: a Parquet file of (piece, count) with pattern, inputs and a checksum.

With saved counts another vocabulary size or tie rule costs only the merging, and corpora can be weighted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tokenmill import _core
from tokenmill.base.durable import digest, sync, temporary_name
from tokenmill.base.texts import Texts
from tokenmill.errors import ConfigError, InputError, InputNotFoundError, TokenmillError
from tokenmill.settings.schema import TrainingConfig
from tokenmill.training.counting import Counted, Counting

KEY = b"tokenmill.counts"
VERSION = 2
SCHEMA = pa.schema([("piece", pa.large_binary()), ("count", pa.uint64())])
GROUP_BYTES = 32 << 20


def save_counts(counted: Counted, options: TrainingConfig, path: str | Path) -> None:
    """Write the counts in bounded batches. The file is the same for any number of threads."""
    # Importing it takes ten megabytes.
    import pyarrow.parquet as pq

    path = Path(path)
    about = {
        "version": VERSION,
        "pattern": options.pattern,
        "special_tokens": list(options.special_tokens),
        "held_out": options.held_out,
        "documents": counted.documents,
        "bytes": counted.bytes,
        "refused": counted.refused,
        "pieces": counted.pieces,
        "inputs": counted.inputs,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    try:
        with pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
            checksum = _Checksum()
            for batch in _group_batches(counted.counts):
                checksum.add(batch)
                writer.write_batch(batch)
            writer.add_key_value_metadata({KEY: json.dumps(checksum.seal(about), sort_keys=True)})
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


class _Checksum:
    """A checksum over pieces, lengths and counts, independent of the batches."""

    def __init__(self) -> None:
        self._parts = [hashlib.blake2b(digest_size=16) for _ in range(3)]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        pieces = Texts.from_arrow(batch.column(0))
        data = pieces.data[pieces.offsets[0] : pieces.offsets[-1]]
        columns = (data, np.diff(pieces.offsets), batch.column(1).to_numpy(zero_copy_only=False))
        for part, column in zip(self._parts, columns, strict=True):
            part.update(np.ascontiguousarray(column).data)

    def seal(self, about: dict[str, Any]) -> dict[str, Any]:
        """Return the description with the checksum of itself and of all rows."""
        return {**about, "checksum": digest([about, *(part.hexdigest() for part in self._parts)])}


def _group_batches(counts: _core.PieceCounts) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    size = 0
    for part in range(counts.batches()):
        data, offsets, numbers = counts.batch(part)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        pieces = pa.Array.from_buffers(pa.large_binary(), len(numbers), buffers)
        held.append(pa.RecordBatch.from_arrays([pieces, pa.array(numbers, pa.uint64())], schema=SCHEMA))
        size += len(data) + 16 * len(numbers)
        if size >= GROUP_BYTES:
            yield _join(held)
            held, size = [], 0
    if held:
        yield _join(held)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches).combine_chunks()
    return table.to_batches()[0] if len(table) else batches[0]


def parse_spec(spec: str | Path) -> tuple[Path, float]:
    """Return `(Path("a.parquet"), 2.0)` for `"a.parquet:2.0"`; without a weight it is 1."""
    name, colon, tail = str(spec).rpartition(":")
    try:
        path, weight = (Path(name), float(tail)) if colon else (Path(spec), 1.0)
    except ValueError:
        path, weight = Path(spec), 1.0
    if not 0 < weight < float("inf"):
        raise ConfigError(
            f"the weight of {path} is {weight}; expected a positive number, as in a.parquet:2.0"
        )
    return path, weight


def add_saved(counting: Counting, options: TrainingConfig, specs: Iterable[Any]) -> None:
    """Add saved counts to a count in progress; a file of another pattern is an error."""
    for spec in specs:
        path, weight = parse_spec(spec)
        with _open_counts(path) as file:
            about = _describe(file, path)
            _check(about, options, path)
            checksum = _Checksum()
            for batch in file.iter_batches(batch_size=1 << 18):
                batch.validate(full=True)
                if any(column.null_count for column in batch.columns):
                    raise ValueError("it has empty cells")
                checksum.add(batch)
                counting.add_counts(Texts.from_arrow(batch.column(0)), weigh(batch.column(1), weight))
            found = about.pop("checksum", None)
            if checksum.seal(about)["checksum"] != found:
                raise ValueError("its checksum does not match its content")
        counting.add_totals(int(about["documents"]), int(about["bytes"]), about.get("refused", {}))
        counting.inputs.append({"counts": str(path), "weight": weight, "inputs": about["inputs"]})


@contextmanager
def _open_counts(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a counts file; any error of a damaged one names the file."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield file
    except TokenmillError:
        raise
    except FileNotFoundError as error:
        raise InputNotFoundError(f"no counts file at {path}; create one with --save-counts") from error
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise InputError(f"{path} is not a complete counts file: {error}; create it again") from error


def describe_counts(path: str | Path) -> dict[str, Any]:
    """Return the description of a counts file: pattern, special tokens, documents, bytes, inputs."""
    with _open_counts(Path(path)) as file:
        return _describe(file, Path(path))


def _describe(file: pq.ParquetFile, path: Path) -> dict[str, Any]:
    metadata = file.metadata.metadata or {}
    if KEY not in metadata or not file.schema_arrow.equals(SCHEMA):
        raise InputError(f"{path} has no piece counts; expected a file of --save-counts")
    about: dict[str, Any] = json.loads(metadata[KEY])
    if about["version"] != VERSION:
        raise InputError(f"{path} has counts of version {about['version']}; this tokenmill reads {VERSION}")
    return about


def _check(about: dict[str, Any], options: TrainingConfig, path: Path) -> None:
    if _core.pre_tokenizer(about["pattern"]) != _core.pre_tokenizer(options.pattern):
        raise ConfigError(
            f"{path} was counted with the pattern {about['pattern']!r}, not {options.pattern!r}; count "
            f"again, or train with --pattern {about['pattern']!r}"
        )
    if set(about["special_tokens"]) != set(options.special_tokens):
        raise ConfigError(
            f"{path} was counted around the special tokens {about['special_tokens']}, not "
            f"{list(options.special_tokens)}; train with the same ones "
            f"({_to_flags(about['special_tokens'])}), or count again"
        )


def _to_flags(special_tokens: list[str]) -> str:
    return " ".join(f"--special-token {quote(token)}" for token in special_tokens) or "--no-special"


def weigh(counts: pa.UInt64Array, weight: float) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return `count * weight`, rounded half up; an integer weight is exact."""
    numbers: np.ndarray[Any, np.dtype[np.uint64]] = counts.to_numpy(zero_copy_only=False)
    if weight == 1:
        return np.ascontiguousarray(numbers)
    largest = int(numbers.max()) if len(numbers) else 0
    if largest * weight >= 2**63:
        raise ConfigError(
            f"a count of {largest} times the weight {weight} exceeds 2^63; use a smaller weight"
        )
    if weight.is_integer():
        return np.asarray(numbers * np.uint64(weight), np.uint64)
    return np.asarray(np.floor(numbers * weight + 0.5), np.uint64)
