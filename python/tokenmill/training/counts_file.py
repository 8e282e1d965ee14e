"""Save and load piece counts: a Parquet file of (piece, count) with pattern, inputs and a checksum.

With saved counts another vocabulary size or tie rule costs only the merging, and corpora can be weighted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tokenmill import _core
from tokenmill.base.durable import digest, sync, temporary_name
from tokenmill.base.texts import Texts
from tokenmill.errors import ConfigError, InputError, InputNotFoundError, TokenmillError
from tokenmill.settings.schema import TrainingConfig
from tokenmill.training.counting import Counted, Counting

KEY = b"tokenmill.counts"
VERSION = 3
SCHEMA = pa.schema([("piece", pa.large_binary()), ("count", pa.uint64())])
PARQUET: Any = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}  # all bytes count


class _Checksum:
    """A checksum of the description and all rows of a file."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, pieces: Texts, counts: NDArray[Any]) -> None:
        """Add the rows of a row group."""
        lengths = np.diff(np.asarray(pieces.offsets))
        for each in (pieces.data[pieces.offsets[0] : pieces.offsets[-1]], lengths, counts):
            self._hash.update(np.ascontiguousarray(each).data)

    def seal(self, about: dict[str, Any]) -> str:
        """Return the checksum."""
        return digest([about, self._hash.hexdigest()])


def save_counts(counted: Counted, options: TrainingConfig, path: str | Path) -> None:
    """Write the counts in bounded row groups. The file is the same for any number of threads."""
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
    temporary, checksum = temporary_name(path), _Checksum()
    try:
        with pq.ParquetWriter(temporary, SCHEMA, **PARQUET) as writer:
            for part in range(counted.counts.batches()):
                data, offsets, counts = counted.counts.batch(part)
                checksum.add(Texts(data, offsets), counts)
                buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
                pieces = pa.Array.from_buffers(pa.large_binary(), len(counts), buffers)
                if len(counts):
                    writer.write(pa.table([pieces, pa.array(counts)], schema=SCHEMA))
            sealed = json.dumps({**about, "checksum": checksum.seal(about)}, sort_keys=True)
            writer.add_key_value_metadata({KEY: sealed})
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def add_saved(counting: Counting, options: TrainingConfig, specs: Iterable[Any]) -> None:
    """Add saved counts, given as `path` or `path:weight`, to a count in progress."""
    for spec in specs:
        path, weight = parse_spec(spec)
        try:
            with pq.ParquetFile(path) as file:
                about = _add_file(counting, options, file, path, weight)
        except TokenmillError:
            raise
        except FileNotFoundError as error:
            raise InputNotFoundError(f"no counts file at {path}; create one with `save_counts`") from error
        except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
            raise InputError(f"{path} is not a complete counts file: {error}; create it again") from error
        counting.add_totals(about["documents"], about["bytes"], about["refused"])
        counting.inputs.append({"counts": str(path), "weight": weight, "inputs": about["inputs"]})


def _add_file(
    counting: Counting, options: TrainingConfig, file: pq.ParquetFile, path: Path, weight: float
) -> dict[str, Any]:
    """Add the rows of a file, and return its description. Raise `ValueError` if it is damaged."""
    metadata = file.metadata.metadata or {}
    if KEY not in metadata or not file.schema_arrow.equals(SCHEMA):
        raise InputError(f"{path} has no piece counts; expected a file of `save_counts`")
    about: dict[str, Any] = json.loads(metadata[KEY])
    if about["version"] != VERSION:
        raise InputError(f"{path} has counts of version {about['version']}; this tokenmill reads {VERSION}")
    _check(about, options, path)
    checksum, expected = _Checksum(), about.pop("checksum", None)
    for group in range(file.num_row_groups):
        table = file.read_row_group(group).combine_chunks()
        table.validate(full=True)
        pieces = Texts.from_arrow(table.column(0).chunk(0))
        counts = table.column(1).chunk(0).to_numpy(zero_copy_only=False)
        checksum.add(pieces, counts)
        counting.add_counts(pieces, weigh(counts, weight))
    if checksum.seal(about) != expected:
        raise ValueError("its checksum does not match its content")
    return about


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


def _check(about: dict[str, Any], options: TrainingConfig, path: Path) -> None:
    """Raise `ConfigError` if a file was counted with another pattern or other special tokens."""
    if _core.pre_tokenizer(about["pattern"]) != _core.pre_tokenizer(options.pattern):
        raise ConfigError(
            f"{path} was counted with the pattern {about['pattern']!r}, not {options.pattern!r}; count "
            "again, or train with that `pattern`"
        )
    if set(about["special_tokens"]) != set(options.special_tokens):
        raise ConfigError(
            f"{path} was counted around the special tokens {about['special_tokens']}, not "
            f"{list(options.special_tokens)}; train with the same `special_tokens`, or count again"
        )


def weigh(counts: NDArray[np.uint64], weight: float) -> NDArray[np.uint64]:
    """Return `count * weight`, rounded half up; an integer weight is exact."""
    if weight == 1:
        return np.ascontiguousarray(counts)
    largest = int(counts.max()) if len(counts) else 0
    if largest * weight >= 2**63:
        raise ConfigError(
            f"a count of {largest} times the weight {weight} exceeds 2^63; use a smaller weight"
        )
    scaled = counts * np.uint64(weight) if weight.is_integer() else np.floor(counts * weight + 0.5)
    return np.asarray(scaled, np.uint64)
