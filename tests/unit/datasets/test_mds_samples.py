"""The samples of MDS, made for all documents at once, are those that are made one by one."""

import struct
from itertools import pairwise

import numpy as np

from tokenmill.datasets.formats.chunks import _make_samples


def one_by_one(columns, offsets):
    samples = []
    for start, stop in pairwise(offsets):
        values = []
        for column in columns:
            count = stop - start
            code, width = next(
                (code, width) for code, width in ((0, "B"), (1, "H"), (2, "I")) if count < 1 << 8 * 2**code
            )
            values.append(bytes([4 | code]) + struct.pack(f"<{width}", count) + column[start:stop].tobytes())
        samples.append(struct.pack(f"<{len(values)}I", *map(len, values)) + b"".join(values))
    return samples


def test_samples_of_every_width_of_shape():
    lengths = np.array([0, 1, 255, 256, 65535, 65536, 0, 70000, 3])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = np.arange(offsets[-1]).astype(np.uint16)
    for columns in ([ids], [ids.astype(np.int8), ids.astype(np.int32), ids]):
        body, sizes = _make_samples(columns, offsets)
        expected = one_by_one(columns, offsets)
        assert body.tobytes() == b"".join(expected)
        assert sizes.tolist() == [len(sample) for sample in expected]
