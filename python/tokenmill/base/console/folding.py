"""Lines no wider than the terminal, which would break them anywhere, even in the middle of a word."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from unicodedata import combining, east_asian_width

if TYPE_CHECKING:
    from typing import IO

# Colours, which take no columns.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
# A label and the spaces after it: what follows stays in its column.
_LABEL = re.compile(r"\s*\S+(?: \S+)?(?::| {2,}) *")
# Where a line may end: at spaces, and between any two Chinese or Japanese characters.
_CUT = re.compile("( +)|(?<=[\u3001-\u30ff\u3400-\u9fff])(?=[\u3040-\u30ff\u3400-\u9fff])")
# A label wider than this is a sentence; its next lines start near the left edge.
_WIDEST_LABEL = 24


def fold_for(stream: IO[str], text: str) -> str:
    """`text` as it is for a file or a pipe; for a terminal, folded at words to its width."""
    width = find_width(stream)
    return "\n".join(fold(line, width) for line in text.split("\n")) if width else text


def find_width(stream: IO[str]) -> int:
    """The columns of the terminal that a stream goes to; 0 for a file or a pipe."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):  # no such descriptor, or closed
        return 0


def fold(line: str, width: int) -> str:
    """A line as lines of at most `width` columns, cut at spaces; a word that is wider stays whole."""
    if count_cells(line) <= width:
        return line
    indent = " " * _find_column(line)
    lines, now = [], ""
    for part in filter(None, _CUT.split(line)):
        if now.strip() and not part.isspace() and count_cells(now) + count_cells(part) > width:
            lines.append(now.rstrip())
            now = indent
        now += part
    return "\n".join([*lines, now.rstrip()])


def count_cells(text: str) -> int:
    """How many columns a terminal gives a text: Hangul and Han take two, colours and accents none."""
    plain = _STYLE.sub("", text)
    return sum(0 if combining(sign) else 1 + (east_asian_width(sign) in "WF") for sign in plain)


def _find_column(line: str) -> int:
    """The column of what follows the label, or two columns right of the line's own indent."""
    plain = _STYLE.sub("", line)
    found = _LABEL.match(plain)
    if found and plain[: found.end()].rstrip()[-1:] != ":" and count_cells(found[0]) <= _WIDEST_LABEL:
        return count_cells(found[0])
    return len(plain) - len(plain.lstrip()) + 2
