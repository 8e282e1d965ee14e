"""Select documents by content, and record the documents removed from a dataset.

Duplicates: one hash per document is stored on disk and compared in parts that fit in memory. The first
occurrence by (unit ordinal, document order) is kept, independent of workers and time. Units that are added
later never make an earlier document a duplicate. A split depends on the content alone, so all copies of a
text are on one side.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tokenmill import _core
from tokenmill.base.durable import DurableFile, publish_bytes
from tokenmill.base.records import Count, Record, encode_record, open_record, read_record, to_plain, validate
from tokenmill.base.texts import Texts
from tokenmill.datasets.documents import make_offsets
from tokenmill.datasets.formats.files import CHECKSUM_BYTES, HASHES_MAGIC, HEADER, make_header, map_hashes
from tokenmill.errors import ConfigError, DatasetError

DUPLICATES = "duplicates"
VALIDATION: Final = "validation"
TRAINING: Final = "training"
# Memory per document while sorting: the hash, its index, the order, and a copy of each.
_BYTES_PER_DOCUMENT = 80


def hashes_path(root: Path, name: str) -> Path:
    """Return the path of the hashes of a unit."""
    return root / DUPLICATES / f"{name}.hashes"


def has_hashes(root: Path, name: str) -> bool:
    """Return True if the hashes of a unit exist and match their checksum.

    A corrupt hash file would keep duplicates or drop unique documents.
    """
    try:
        _load_hashes(hashes_path(root, name))
    except (FileNotFoundError, DatasetError):
        return False
    return True


def _load_hashes(path: Path) -> NDArray[np.uint64]:
    rows, checksum = map_hashes(path)
    if blake2b(rows.data, digest_size=CHECKSUM_BYTES).digest() != checksum:
        raise DatasetError(f"{path} does not match its checksum: it is damaged. Copy the dataset again")
    return rows


class HashWriter:
    """Write the hashes of a unit's texts, in order, and a checksum of them."""

    def __init__(self, root: Path, name: str) -> None:
        """Open the file under a temporary name."""
        self._file = DurableFile(hashes_path(root, name))
        self._file.write(b"\0" * HEADER.size)
        self._checksum = blake2b(digest_size=CHECKSUM_BYTES)
        self.count = 0

    def write(self, offsets: memoryview, data: memoryview) -> None:
        """Hash texts `data[offsets[d]:offsets[d + 1]]`."""
        hashes = _core.hash_texts(data, np.ascontiguousarray(offsets)).astype("<u8", copy=False)
        self._file.write(hashes)
        self._checksum.update(hashes.data)
        self.count += len(offsets) - 1

    def close(self) -> None:
        """Publish the file."""
        self._file.write(self._checksum.digest())
        self._file.write_head(make_header(HASHES_MAGIC, self.count))
        self._file.publish()

    def discard(self) -> None:
        """Remove the file unless it was published."""
        self._file.discard()


class Duplicates:
    """A bit mask of the documents of a job that repeat an earlier one."""

    def __init__(self, root: Path, names: list[str], budget: int) -> None:
        """Compare the hashes of all units, `budget` bytes at a time."""
        missing = [name for name in names if not hashes_path(root, name).exists()]
        if missing:
            raise DatasetError(
                f"{len(missing)} of {len(names)} units have no hashes in {root / DUPLICATES} "
                f"(the first is {missing[0]}): dropping duplicates compares all units in one place, so every "
                "worker must write to one directory. Write to a file system that all hosts share, or prepare "
                "on one host."
            )
        self._hashes = {name: _load_hashes(hashes_path(root, name)) for name in names}
        starts = make_offsets(np.array([len(hashes) for hashes in self._hashes.values()]))
        self._spans = {name: (int(starts[i]), int(starts[i + 1])) for i, name in enumerate(names)}
        self._bits = np.zeros(int(starts[-1]) // 8 + 1, dtype=np.uint8)
        parts = max(1, -(-int(starts[-1]) * _BYTES_PER_DOCUMENT // max(1, budget)))
        for part in range(parts if names else 0):
            self._mark(part, parts)

    def find_in(self, name: str) -> NDArray[np.bool_]:
        """Return a mask of the documents of a unit, after the text filters, that repeat an earlier one."""
        start, stop = self._spans[name]
        bits = np.unpackbits(self._bits[start // 8 : stop // 8 + 1], bitorder="little")
        return bits[start % 8 : start % 8 + stop - start].astype(np.bool_)

    def _mark(self, part: int, parts: int) -> None:
        lows, highs, places = [], [], []
        for name, hashes in self._hashes.items():
            mine: Any = slice(None) if parts == 1 else np.flatnonzero(hashes[:, 1] % np.uint64(parts) == part)
            lows.append(hashes[mine, 0])
            highs.append(hashes[mine, 1])
            places.append(np.arange(*self._spans[name])[mine])
        low, high, place = np.concatenate(lows), np.concatenate(highs), np.concatenate(places)
        # The sort is stable, so the first document of each run of equal hashes is kept.
        order = np.lexsort((low, high))
        again = (low[order][1:] == low[order][:-1]) & (high[order][1:] == high[order][:-1])
        repeated = place[order][1:][again]
        np.bitwise_or.at(self._bits, repeated // 8, (1 << (repeated % 8)).astype(np.uint8))


def other_part(part: str) -> str:
    """Return the other of training and validation."""
    return TRAINING if part == VALIDATION else VALIDATION


@dataclass(frozen=True, slots=True)
class Split:
    """One side of a split: `part` of the two, with `share` of all documents in validation."""

    part: Literal["training", "validation"]
    share: float
    by_id: bool = False

    def find_left_out(self, texts: Texts, ids: Any | None) -> NDArray[np.bool_]:
        """Return a mask of the documents that belong to the other side."""
        chosen = self._choose(texts)
        if self.by_id and ids is not None:
            # A record without an id is assigned by its text.
            named = np.asarray(ids.is_valid())
            chosen = np.where(named, self._choose(Texts.from_arrow(ids.fill_null(""))), chosen)
        return chosen if self.part == TRAINING else ~chosen

    def _choose(self, texts: Texts) -> NDArray[np.bool_]:
        """Return a mask of the validation texts: the upper half of the hash is below the share."""
        hashes = _core.hash_texts(texts.data, np.ascontiguousarray(texts.offsets)).reshape(-1, 2)
        most = (1 << 64) - 1
        chosen: NDArray[np.bool_] = hashes[:, 1] < np.uint64(min(most, int(self.share * (most + 1))))
        return chosen


REMOVED = "removed.json"
REMOVED_VERSION = 1
# The reason in the account for documents removed without a reason.
REASON = "removed"
_WAYS = ("document", "record", "id", "contains")


@dataclass(frozen=True, slots=True)
class RemovedDocument:
    """A removed document: its number in the original dataset, and the reason."""

    number: Count
    reason: str = REASON


@dataclass(frozen=True, slots=True)
class Removal(Record):
    """The documents removed from the dataset with that content hash, in ascending order."""

    content_hash: str
    documents: tuple[RemovedDocument, ...]


def save_removal(root: Path, removal: Removal) -> None:
    """Publish the record, before the manifest."""
    value = {"removed_version": REMOVED_VERSION} | to_plain(removal)
    publish_bytes(root / REMOVED, encode_record(value))


def load_removal(root: Path) -> Removal | None:
    """Return the record of a removal, or None."""
    path = root / REMOVED
    return parse_removal(read_record(path), str(path)) if path.exists() else None


def parse_removal(data: bytes, where: str) -> Removal:
    """Return the record in a file. Raise `DatasetError` if it is corrupt or of another version."""
    return validate(Removal, open_record(data, where, "removed_version", REMOVED_VERSION), where)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One line of a list of documents: a number, `FILE:ROW`, an id or a text, and a reason."""

    line: int
    way: str
    value: Any
    reason: str


def read_list(path: str | Path) -> Iterator[Wanted]:
    """Yield the lines of a file: `FILE:ROW`, or a JSON object that identifies a document."""
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.lstrip().startswith("{"):
            yield Wanted(number, "record", line.strip(), REASON)
            continue
        try:
            item = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{path}:{number}: not JSON ({error})") from None
        yield _read_item(item, f"{path}:{number}", number)


def _read_item(item: dict[str, Any], where: str, number: int) -> Wanted:
    reason = item.pop("reason", REASON)
    if item.keys() == {"file", "row"}:
        item = {"record": f"{item['file']}:{item['row']}"}
    if len(item) != 1 or not item.keys() <= set(_WAYS):
        found = next((key for key in item if key not in _WAYS), ", ".join(item) or "nothing")
        raise ConfigError(
            f"{where}: found {found}; name a document by one of document, id, contains, or file and row, "
            "with a reason if you like"
        )
    way, value = next(iter(item.items()))
    kind = int if way == "document" else str
    if type(value) is not kind or not isinstance(reason, str) or not reason:
        expected = "a whole number" if kind is int else "text"
        raise ConfigError(
            f"{where}: {way} is {value!r} and reason is {reason!r}; expected {expected} and some text"
        )
    return Wanted(number, way, value, reason)


def check_numbers(removal: Removal, documents: int) -> None:
    """Raise `DatasetError` unless every number is that of an existing document."""
    last = removal.documents[-1].number if removal.documents else -1
    if last >= documents:
        raise DatasetError(f"there is no document {last:,}: the dataset has {documents:,}, counted from 0")
