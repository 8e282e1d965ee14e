"""A tokenizer from one format to another, checked on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.files.kinds import KINDS
from tokenmill.tokenizer.pre_tokenizer import find_pattern
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.settings.section import SaveFormat

# Short texts in which the alternatives of the usual patterns compete.
_PROBES = (
    "Hello, world! It's 12345 o'clock; WE'RE here.\r\n\r\n\tdef f(x):\n    return x ** 2\n",
    "안녕하세요 세계, 中文测试。日本語のテキスト 123 e\u0301 👨‍👩‍👧 \u00a0 \u3000\n\n  x",
    "camelCase HTTPServer don't DON'T 'll ///\n\n\n...!?  _a_ <b>&amp;</b> \0 \ufeff\U0010ffff",
)


def convert(
    source: str | Path,
    target: str | Path,
    format: SaveFormat = "hf",  # noqa: A002 - the public name
    *,
    pattern: str | None = None,
) -> Tokenizer:
    """Load `source`, save it as `target`, and return the tokenizer.

    Raises `TokenizerError` where the format cannot hold it, or a file cannot be read or written.
    """
    tokenizer = Tokenizer.load(source, pattern=pattern)
    tokenizer.save(target, format)
    return tokenizer


def check_conversion(tokenizer: Tokenizer, target: str | Path, format: str) -> int:  # noqa: A002
    """Load what was saved and compare ids on a few texts; returns how many, raises `TokenizerError`."""
    pattern = None if KINDS[format].has_pattern else find_pattern(tokenizer.recipe.pre_tokenizer)
    again = Tokenizer.load(target, pattern=pattern)
    for probe in _PROBES:
        if again.encode(probe, special="text") != tokenizer.encode(probe, special="text"):
            raise TokenizerError(
                f"{target}: encodes {probe[:20]!r}… differently from {tokenizer.source}; {format} cannot "
                "hold this tokenizer: save it as 'hf'"
            )
    return len(_PROBES)
