"""Lines that fit a terminal."""

import pytest

from tokenmill.base.console.folding import count_cells, fold


@pytest.mark.parametrize(
    ("line", "width", "folded"),
    [
        ("a short line", 20, "a short line"),
        ("found   one two three", 14, "found   one\n        two\n        three"),
        ("tokenmill: one two three", 14, "tokenmill: one\n  two three"),
        ("한국어 문장 하나", 12, "한국어 문장\n  하나"),
        ("小河这个星期", 8, "小河这个\n  星期"),
        ("a-word-that-is-wider and more", 10, "a-word-that-is-wider\n  and more"),
        ("\x1b[32mok\x1b[0m  free space  1 2", 15, "\x1b[32mok\x1b[0m  free space\n    1 2"),
    ],
)
def test_lines_are_cut_at_spaces(line, width, folded):
    assert fold(line, width) == folded


def test_hangul_takes_two_columns_and_an_accent_none():
    assert (count_cells("방앗간"), count_cells("e\u0301"), count_cells("\x1b[1mx\x1b[0m")) == (6, 1, 1)
