"""The two binary index files: `.idx` (document offsets) and `.seg` (segments of documents in rows)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

HEADER = struct.Struct("<4sIQ")
VERSION = 1
OFFSETS_MAGIC = b"TMIX"
SEGMENTS_MAGIC = b"TMSG"
HASHES_MAGIC = b"TMDH"
SEGMENT_FIELDS = 4
CHECKSUM_BYTES = 16


def make_header(magic: bytes, count: int) -> bytes:
    """The 16 bytes that open every index file: magic, u32 version, u64 count."""
    return HEADER.pack(magic, VERSION, count)


def map_offsets(path: Path) -> NDArray[np.uint64]:
    """`.idx` -> the u64 offsets, memory-mapped; raises `DatasetError` if the size or the header is wrong."""
    return _map_u64(path, OFFSETS_MAGIC, per_item=1, extra=(1,))


def map_segments(path: Path) -> NDArray[np.uint64]:
    """`.seg` -> u64 rows of (document, start, position, length), memory-mapped."""
    return _map_u64(path, SEGMENTS_MAGIC, per_item=SEGMENT_FIELDS, extra=(0,)).reshape(-1, SEGMENT_FIELDS)


def map_hashes(path: Path) -> tuple[NDArray[np.uint64], bytes]:
    """`.hashes` -> u64 rows of (low, high), memory-mapped, and their checksum; older files have none."""
    found = _map_u64(path, HASHES_MAGIC, per_item=2, extra=(CHECKSUM_BYTES // 8, 0))
    with path.open("rb") as file:
        count = HEADER.unpack(file.read(HEADER.size))[2]
    return found[: 2 * count].reshape(-1, 2), found[2 * count :].tobytes()


def _map_u64(path: Path, magic: bytes, *, per_item: int, extra: tuple[int, ...]) -> NDArray[np.uint64]:
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(HEADER.size)
    if len(start) < HEADER.size:
        raise DatasetError(
            f"{path} has {size} bytes, fewer than its {HEADER.size}-byte header: it is truncated"
        )
    found, version, count = HEADER.unpack(start)
    if found != magic:
        raise DatasetError(
            f"{path} starts with {found!r}, expected {magic!r}: it is not the file its name says"
        )
    if version != VERSION:
        raise DatasetError(f"{path} has version {version}, this tokenmill reads {VERSION}: upgrade it")
    expected = [HEADER.size + 8 * (count * per_item + each) for each in extra]
    if size not in expected:
        raise DatasetError(f"{path} has {size} bytes, its header promises {expected[0]}: it is damaged")
    if size == HEADER.size:
        return np.empty(0, dtype="<u8")
    return np.memmap(path, dtype="<u8", mode="r", offset=HEADER.size)
