"""What tiktoken does below its pattern: bytes of one piece, and what the end of a text may still become."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenmill.tokenizer.tokenizer import Tokenizer


def encode_piece(tokenizer: Tokenizer, data: bytes) -> list[int]:
    """The ids of bytes that are one piece, by merging the pair of lowest rank until none is left."""
    ids, find_rank = _map_ids(tokenizer), _make_ranker(tokenizer)
    model = tokenizer.recipe.model
    if data in ids and (model is None or model.merges is None or model.ignore_merges):
        return [ids[data]]
    parts = [data[i : i + 1] for i in range(len(data))]
    while len(parts) > 1:
        ranks = [(find_rank(*pair), place) for place, pair in enumerate(pairwise(parts))]
        possible = [(rank, place) for rank, place in ranks if rank is not None]
        if not possible:
            break
        _, best = min(possible)
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return [ids[part] for part in parts]


def complete(
    tokenizer: Tokenizer, ids: list[int], last: str, *, completions: bool = True
) -> tuple[list[int], list[list[int]]]:
    """The ids that more text cannot change, and the ways in which the rest may be encoded when it goes on."""
    loose = _count_loose(tokenizer, ids, last)
    if not loose:
        return ids, []
    stable = ids[: len(ids) - loose]
    unstable = tokenizer.decode_bytes(ids[len(stable) :])
    if not completions or not unstable:
        return stable, []
    ids_of, ordered = _map_ids(tokenizer), _sort_tokens(tokenizer)
    ways: set[tuple[int, ...]] = {(ids_of[token],) for token in _find_by_prefix(ordered, unstable)}
    for cut in range(1, len(unstable)):
        for token in _find_by_prefix(ordered, unstable[cut:]):
            ways.add(_take_until(tokenizer, _reencode(tokenizer, unstable[:cut] + token), len(unstable)))
    ways |= _split_at_space(tokenizer, unstable)
    return stable, [list(way) for way in ways]


def _count_loose(tokenizer: Tokenizer, ids: list[int], last: str) -> int:
    """How many ids belong to the last piece, and to the blanks before it if it is blank."""
    if not last:
        return 0
    ends = tokenizer.engine.piece_ends(last, "text") or [0]
    begin = ends[-2] if len(ends) > 1 else 0
    loose = len(tokenizer.encode(last, special="text")) - len(
        tokenizer.encode(last.encode()[:begin].decode(), special="text")
    )

    def is_blank(place: int) -> bool:
        return not tokenizer.token_bytes(ids[place]).strip(b" \n\t")

    if loose and is_blank(len(ids) - loose):
        while loose < len(ids) and is_blank(len(ids) - loose - 1):
            loose += 1
    return loose


def _reencode(tokenizer: Tokenizer, data: bytes) -> list[int]:
    try:
        return tokenizer.encode(data.decode(), special="text")
    except UnicodeDecodeError:
        return encode_piece(tokenizer, data)


def _take_until(tokenizer: Tokenizer, ids: list[int], length: int) -> tuple[int, ...]:
    """The first ids that cover `length` bytes."""
    covered = 0
    for place, token in enumerate(ids):
        covered += len(tokenizer.token_bytes(token))
        if covered >= length:
            return tuple(ids[: place + 1])
    return tuple(ids)


def _split_at_space(tokenizer: Tokenizer, unstable: bytes) -> set[tuple[int, ...]]:
    """More text may separate a blank at the end from what is before it."""
    text = unstable.decode(errors="replace")
    tail = len(text[-1:].encode())
    if len(unstable) > tail and text[-1:].isspace():
        first, second = unstable[:-tail], unstable[-tail:]
        return {(*encode_piece(tokenizer, first), *encode_piece(tokenizer, second))}
    return set()


def _find_by_prefix(ordered: list[bytes], prefix: bytes) -> list[bytes]:
    """The tokens that begin with `prefix`."""
    first = last = bisect_left(ordered, prefix)
    while last < len(ordered) and ordered[last].startswith(prefix):
        last += 1
    return ordered[first:last]


@lru_cache(maxsize=4)
def _map_ids(tokenizer: Tokenizer) -> dict[bytes, int]:
    model = tokenizer.recipe.model
    assert model is not None
    return model.map_ids()


@lru_cache(maxsize=4)
def _make_ranker(tokenizer: Tokenizer) -> Callable[[bytes, bytes], int | None]:
    """The rank of a merge: its place in the list, or that of the token it makes; None if there is none."""
    model = tokenizer.recipe.model
    assert model is not None
    tokens = model.tokens
    if model.merges is None:
        by_token = {tokens[i] or b"": rank for rank, i in enumerate(model.rank_order)}
        return lambda left, right: by_token.get(left + right)
    by_pair = {(tokens[a] or b"", tokens[b] or b""): rank for rank, (a, b) in enumerate(model.merges)}
    return lambda left, right: by_pair.get((left, right))


@lru_cache(maxsize=4)
def _sort_tokens(tokenizer: Tokenizer) -> list[bytes]:
    return sorted(_map_ids(tokenizer))
