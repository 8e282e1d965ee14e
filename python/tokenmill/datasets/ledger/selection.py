"""Select documents by content, and record the documents removed from a dataset.

Duplicates: one hash per document is stored on disk and compared in parts that fit in memory. The first
occurrence by (unit ordinal, document order) is kept, independent of workers and time. Units that are added
later never make an earlier document a duplicate. A split depends on the content alone, so all copies of a
text are on one side.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tokenmill import _core
from tokenmill.base.durable import publish_bytes
from tokenmill.base.records import Record, encode_record, open_record, to_plain, validate
from tokenmill.base.texts import Texts
from tokenmill.datasets.documents import make_offsets
from tokenmill.datasets.formats.files import HASHES_MAGIC, HEADER, VERSION, map_numbers
from tokenmill.errors import DatasetError

DUPLICATES = "duplicates"
REMOVED = "removed.json"
REMOVED_VERSION = 2
VALIDATION: Final = "validation"
TRAINING: Final = "training"
# Memory per document while sorting: the hash, its index, the order, and a copy of each.
_BYTES_PER_DOCUMENT = 80


def hashes_path(root: Path, name: str) -> Path:
    """Return the path of the hashes of a unit."""
    return root / DUPLICATES / f"{name}.hashes"


def write_hashes(root: Path, name: str, blocks: Iterable[Texts]) -> None:
    """Hash the texts of a unit, and publish the hashes in order with their checksum."""
    hashes = [_core.hash_texts(texts.data, np.ascontiguousarray(texts.offsets)) for texts in blocks]
    data = np.concatenate([np.empty(0, np.uint64), *hashes]).astype("<u8", copy=False).tobytes()
    head, tail = HEADER.pack(HASHES_MAGIC, VERSION, len(data) // 16), blake2b(data, digest_size=16).digest()
    publish_bytes(hashes_path(root, name), head + data + tail)


def has_hashes(root: Path, name: str) -> bool:
    """Return True if the hashes of a unit exist and match their checksum."""
    try:
        _load_hashes(root, name)
    except (FileNotFoundError, DatasetError):
        return False
    return True


def _load_hashes(root: Path, name: str) -> NDArray[np.uint64]:
    """Map rows of (low, high). A corrupt file would keep duplicates or drop unique documents."""
    path = hashes_path(root, name)
    found = map_numbers(path, HASHES_MAGIC, per_item=2, extra=2)
    rows = found[:-2].reshape(-1, 2)
    if blake2b(rows.data, digest_size=16).digest() != found[-2:].tobytes():
        raise DatasetError(f"{path} does not match its checksum: it is damaged. Copy the dataset again")
    return rows


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
        self._hashes = {name: _load_hashes(root, name) for name in names}
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


@dataclass(frozen=True, slots=True)
class Removal(Record):
    """The documents removed from the dataset with that content hash: numbers in it, and reasons."""

    content_hash: str
    documents: dict[int, str]

    def encode(self) -> bytes:
        """Return the content of `removed.json`."""
        return encode_record({"removed_version": REMOVED_VERSION} | to_plain(self))


def parse_removal(data: bytes | None) -> Removal | None:
    """Return the removal in the content of `removed.json`, or None if there is no such file."""
    if data is None:
        return None
    return validate(Removal, open_record(data, REMOVED, "removed_version", REMOVED_VERSION), REMOVED)
