"""Explain the tokens of one text and the merges of one token, for the playground."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import Any, Literal

from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.scripts import count_scripts


def explain(tokenizer: Tokenizer, text: str, *, special: Literal["text", "parse"]) -> dict[str, Any]:
    """Return ids with the byte at which each ends, pieces, ranks, counts by script, and the round trip.

    `normalized` is the text that the tokens spell, or None if that is the text itself.
    """
    data = text.encode()
    ids = tokenizer.encode(text, special=special)
    counts = Counter(ids)
    spellings = {token: tokenizer.token_bytes(token) for token in counts}
    spelled = tokenizer.decode_bytes(ids)
    specials, made = set(tokenizer.special_tokens.values()), rank_merges(tokenizer)[1]
    return {
        "ids": ids,
        "ends": list(accumulate(len(spellings[token]) for token in ids)),
        "special": [index for index, token in enumerate(ids) if token in specials],
        "piece_ends": tokenizer.engine.piece_ends(text, special) or [],
        "normalized": None if spelled == data else spelled.decode("utf-8", "replace"),
        "round_trip": tokenizer.decode(ids) == text,
        "ranks": {token: rank for token in counts if (rank := made.get(token)) is not None},
        "counts": dict(counts),
        "tokens": len(ids),
        "bytes": len(data),
        "characters": len(text),
        "vocab_size": tokenizer.vocab_size,
        "fingerprint": tokenizer.fingerprint,
        "strategy": tokenizer.strategy.name,
        "scripts": count_scripts((spellings[token], count) for token, count in counts.items()),
    }


@lru_cache(maxsize=8)
def rank_merges(tokenizer: Tokenizer) -> tuple[dict[tuple[int, int], int] | None, dict[int, int]]:
    """Return the ranks of pairs (None if tokens are ranked) and of the merge that makes each token."""
    model = tokenizer.recipe.model
    if model is None:
        return {}, {}
    if model.merges is None:
        return None, {token: rank for rank, token in enumerate(model.rank_order)}
    pairs = {pair: rank for rank, pair in enumerate(model.merges)}
    spelled = {token: id_ for id_, token in enumerate(model.tokens) if token is not None}
    made: dict[int, int] = {}
    for (left, right), rank in pairs.items():
        made.setdefault(spelled.get((model.tokens[left] or b"") + (model.tokens[right] or b""), -1), rank)
    return pairs, made


def explain_merges(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    """Return the rank of the last merge of a token, and its steps, such as [t, h, e], [th, e], [the].

    The rank of a token that is not the result of a merge is None.
    """
    data, steps, rank = tokenizer.token_bytes(token), [[token]], None
    if tokenizer.recipe.model is not None and token not in tokenizer.added_tokens.values():
        steps, rank = _replay_merges(tokenizer, data)
    texts = {id_: tokenizer.token_bytes(id_).decode("utf-8", "backslashreplace") for id_ in chain(*steps)}
    return {
        "rank": rank if steps[-1] == [token] else None,
        "steps": [[{"id": id_, "text": texts[id_]} for id_ in step] for step in steps],
    }


def _replay_merges(tokenizer: Tokenizer, data: bytes) -> tuple[list[list[int]], int | None]:
    """Merge from single bytes, or characters for a SentencePiece-style vocabulary."""
    by_pair, order = rank_merges(tokenizer)
    model = tokenizer.recipe.model
    parts = [bytes([byte]) for byte in data]
    if model is not None and model.kind != "bytes":
        parts = [character.encode() for character in data.decode("utf-8", "replace")]
    symbols = [found for part in parts if (found := tokenizer.id_of(part)) is not None]
    steps, last = [symbols], None
    while True:
        known = []
        for at, pair in enumerate(pairwise(symbols)):
            merged = tokenizer.id_of(tokenizer.token_bytes(pair[0]) + tokenizer.token_bytes(pair[1]))
            if merged is not None:
                rank = order.get(merged) if by_pair is None else by_pair.get(pair)
                known += [] if rank is None else [(rank, at, merged)]
        if not known:
            return steps, last
        last, at, merged = min(known)
        symbols = [*symbols[:at], merged, *symbols[at + 2 :]]
        steps.append(symbols)
