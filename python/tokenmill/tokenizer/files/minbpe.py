"""minbpe's `.model` text files: a header, the pattern, the special tokens, then one merge of ids a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill._core import LARGEST_ID
from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.pre_tokenizer import make_byte_level, make_pre_tokenizer, make_regex_pre_tokenizer
from tokenmill.tokenizer.recipe import Json, Recipe, build_byte_model, check_added, to_specials

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HEADER = "minbpe v1"
# Sixty doublings would ask for more memory than there is.
_LONGEST = 1 << 16


def is_minbpe(path: Path) -> bool:
    """Whether a `.model` file is minbpe's; SentencePiece's are binary."""
    with path.open("rb") as file:
        return file.read(len(HEADER)) == HEADER.encode()


def load_file(path: Path, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Recipe:
    """A minbpe model. An empty pattern (`BasicTokenizer`) means that the whole text is one piece."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise TokenizerError(
            f"{path}: not UTF-8 at byte {error.start}; expected a minbpe text file"
        ) from error
    try:
        count = int(lines[2])
        parts = [line.rpartition(" ") for line in lines[3 : 3 + count]]
        specials = {content: int(number) for content, _, number in parts}
    except (ValueError, IndexError) as error:
        raise TokenizerError(
            f"{path}:3: the special tokens cannot be read ({error}); save it again"
        ) from error
    if len(specials) != count:
        raise TokenizerError(f"{path}:3: says {count} special tokens, but {len(specials)} follow")
    specials.update(special_tokens or {})
    tokens, merges = _read_merges(lines[3 + count :], path, 4 + count)
    return Recipe(
        source=str(path),
        format="minbpe",
        model=build_byte_model(zip(tokens, range(len(tokens)), strict=True), merges, str(path)),
        added=check_added(to_specials(specials), f"{path}: special tokens"),
        pre_tokenizer=_choose_pre_tokenizer(pattern, lines[1]),
        decoder=make_byte_level(use_regex=False),
    )


def _choose_pre_tokenizer(pattern: str | None, regex: str) -> Json:
    if pattern:
        return make_pre_tokenizer(pattern)
    return make_regex_pre_tokenizer(regex) if regex else make_byte_level(use_regex=False)


def _read_merges(lines: list[str], path: Path, first: int) -> tuple[list[bytes], list[tuple[int, int]]]:
    tokens = [bytes([byte]) for byte in range(256)]
    merges: list[tuple[int, int]] = []
    for number, line in enumerate(lines, start=first):
        if not line.strip():
            continue
        try:
            left, right = map(int, line.split())
        except ValueError as error:
            raise TokenizerError(f"{path}:{number}: expected a merge of two ids, found {line!r}") from error
        if min(left, right) < 0 or max(left, right) >= len(tokens) or len(tokens) > LARGEST_ID:
            raise TokenizerError(
                f"{path}:{number}: merge {line!r} names a token that no earlier line makes; save it again"
            )
        if len(tokens[left]) + len(tokens[right]) > _LONGEST:
            raise TokenizerError(f"{path}:{number}: makes a token of more than {_LONGEST} bytes")
        tokens.append(tokens[left] + tokens[right])
        merges.append((left, right))
    return tokens, merges
