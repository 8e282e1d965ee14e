"""One text counted in parts has the counts of the whole, for every family, wherever it is cut."""

import numpy as np
import pytest

from tokenmill import _core

FAMILIES = [family.name for family in _core.families()]
TEXT = (
    "It's 42  words, <|end|> in <|end|>\n\n 한국어 문장입니다. 두 번째 줄\n中文 没有\u3000空格。\n第二行 x\u00a0y 7 \t\nEnd's  "
    * 40
)
SPECIAL = ["<|end|>", "words,"]


def counter(pattern, spill):
    return _core.PieceCounter(pattern, SPECIAL, 2, 1 << 28, spill)


def tally(counting):
    counts = counting.finish()
    found = {}
    for part in range(counts.batches()):
        data, offsets, numbers = counts.batch(part)
        for start, end, number in zip(offsets[:-1], offsets[1:], numbers, strict=True):
            found[data[start:end].tobytes()] = int(number)
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("window", [40, 333, 5000])
def test_parts_have_the_counts_of_the_whole(tmp_path, family, window):
    data = np.frombuffer(TEXT.encode(), dtype=np.uint8)
    whole = counter(family, tmp_path)
    whole.count(data, np.array([0, len(data)]))
    parts = counter(family, tmp_path)
    start, size, cuts = 0, window, 0
    while start < len(data):
        end = min(start + size, len(data))
        cut = len(data) - start if end == len(data) else parts.last_cut(data[start:end])
        if cut == 0:
            size *= 2
            continue
        parts.count(data[start : start + cut], np.array([0, cut]))
        start, size, cuts = start + cut, window, cuts + 1
    assert cuts > 1 or window > 4096
    assert parts.totals()[1:3] == whole.totals()[1:3]
    assert tally(parts) == tally(whole)


def test_a_pattern_of_ones_own_promises_no_cut(tmp_path):
    counting = counter(r"\w+|\W+", tmp_path)
    data = np.frombuffer(TEXT.encode(), dtype=np.uint8)
    assert counting.last_cut(data) == 0
