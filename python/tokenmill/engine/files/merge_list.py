"""The `merges` of a `tokenizer.json` as pairs of ids.

There can be hundreds of thousands, so they are read in bulk, and one by one only to name a bad one.
"""

from __future__ import annotations

from operator import add
from typing import Any

from tokenmill.base.errors import TokenizerError


def merges_of(merges: Any, vocabulary: dict[str, int], source: str) -> tuple[tuple[int, int], ...]:
    """`["a b", "ab c"]` or `[["a", "b"], ["ab", "c"]]` -> pairs of ids in the order of their ranks."""
    if not isinstance(merges, list):
        raise TokenizerError(f"{source}: model.merges is {type(merges).__name__}; expected a list")
    ids = _in_bulk(merges, vocabulary)
    if ids is None:
        ids = [_one(merge, line, vocabulary, source) for line, merge in enumerate(merges)]
    # A pair listed twice has the rank of its last line, as in HF.
    return tuple(ids) if len(set(ids)) == len(ids) else tuple(reversed(dict.fromkeys(reversed(ids))))


def _in_bulk(merges: list[Any], vocabulary: dict[str, int]) -> list[tuple[int, int]] | None:
    """The ids if all merges have one form and are good; None asks to look at each."""
    forms = set(map(type, merges))
    try:
        if forms == {str} and {merge.count(" ") for merge in merges} == {1}:
            flat = " ".join(merges).split(" ")
            lefts, rights = flat[::2], flat[1::2]
        elif forms == {list}:
            lefts, rights = [left for left, _ in merges], [right for _, right in merges]
        else:
            return None
        ids = list(zip(map(vocabulary.__getitem__, lefts), map(vocabulary.__getitem__, rights), strict=True))
    except (KeyError, TypeError, ValueError):
        return None
    return ids if all(map(vocabulary.__contains__, map(add, lefts, rights))) else None


def _one(merge: Any, line: int, vocabulary: dict[str, int], source: str) -> tuple[int, int]:
    pair = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
        raise TokenizerError(f"{source}: model.merges[{line}] is {merge!r}; expected two tokens")
    for part in (*pair, "".join(pair)):
        if part not in vocabulary:
            raise TokenizerError(
                f"{source}: model.merges[{line}] {merge!r} names {part!r}, which is not in the "
                "vocabulary; "
                "the vocabulary and the merges must come from the same training"
            )
    return vocabulary[pair[0]], vocabulary[pair[1]]
