"""Explains an encoding to people: which bytes each token covers, and how a token is merged, step by step."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from tokenmill.errors import InputError
from tokenmill.report.scripts import count_scripts

if TYPE_CHECKING:
    from tokenmill.tokenizer.recipe import Model
    from tokenmill.tokenizer.tokenizer import Tokenizer

Pair = tuple[int, int]


def explain(tokenizer: Tokenizer, text: str, *, special: Literal["text", "parse"]) -> dict[str, Any]:
    """Ids with the byte at which each ends, pieces, what a normalizer changed, and the round trip.

    `normalized` is the text that the tokens actually spell, or None where that is the text itself.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start} is a lone surrogate, which is not text; paste it again or remove it"
        ) from None
    ids = tokenizer.encode(text, special=special)
    counts = Counter(ids)
    spellings = {token: tokenizer.token_bytes(token) for token in counts}
    widths = {token: len(spelling) for token, spelling in spellings.items()}
    ends, at = [], 0
    for token in ids:
        at += widths[token]
        ends.append(at)
    spelled = tokenizer.decode_bytes(ids)
    specials = set(tokenizer.special_tokens.values())
    pieces = tokenizer.engine.piece_ends(text, special)
    return {
        "ids": ids,
        "ends": ends,
        "special": [index for index, token in enumerate(ids) if token in specials],
        "piece_ends": [] if pieces is None else pieces,
        "normalized": None if spelled == data else spelled.decode("utf-8", "replace"),
        "round_trip": tokenizer.decode(ids) == text,
        "tokens": len(ids),
        "bytes": len(data),
        "characters": len(text),
        "vocab_size": tokenizer.vocab_size,
        "strategy": tokenizer.strategy.name,
        "scripts": count_scripts((spellings[token], count) for token, count in counts.items()),
    }


def explain_merges(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    """`{"rank": 7, "steps": [[t, h, e], [th, e], [the]]}`; a token that no merge makes has rank None."""
    data = tokenizer.token_bytes(token)
    model = tokenizer.recipe.model
    if model is None or token in tokenizer.added_tokens.values():
        return {"rank": None, "steps": [[_describe_token(tokenizer, token)]]}
    table = MergeTable(tokenizer, model)  # some 20 ms for 200,000 merges: no need to keep it
    symbols = _split_symbols(tokenizer, model, data)
    steps, rank = [symbols], None
    while len(symbols) > 1:
        ranked = [(table.find(pair), at) for at, pair in enumerate(pairwise(symbols))]
        known = [(found[0], at, found[1]) for found, at in ranked if found is not None]
        if not known:
            break
        rank, at, merged = min(known)
        symbols = [*symbols[:at], merged, *symbols[at + 2 :]]
        steps.append(symbols)
    whole = symbols == [token]
    return {
        "rank": rank if whole else None,
        "steps": [[_describe_token(tokenizer, symbol) for symbol in step] for step in steps],
    }


class MergeTable:
    """`find(pair)` -> (rank, merged id), from a merge list or from the order of the tokens."""

    def __init__(self, tokenizer: Tokenizer, model: Model) -> None:
        self._tokenizer = tokenizer
        self._by_pair = (
            {pair: rank for rank, pair in enumerate(model.merges)} if model.merges is not None else None
        )
        self._order = {token: rank for rank, token in enumerate(model.rank_order)}

    def find(self, pair: Pair) -> tuple[int, int] | None:
        """None where the pair never merges."""
        left, right = (self._tokenizer.token_bytes(token) for token in pair)
        merged = self._tokenizer.id_of(left + right)
        if merged is None:
            return None
        rank = self._order.get(merged) if self._by_pair is None else self._by_pair.get(pair)
        return None if rank is None else (rank, merged)


def _split_symbols(tokenizer: Tokenizer, model: Model, data: bytes) -> list[int]:
    """Where merging starts: single bytes, or characters for a SentencePiece-style vocabulary."""
    if model.kind == "bytes":
        parts = [bytes([byte]) for byte in data]
    else:
        parts = [character.encode() for character in data.decode("utf-8", "replace")]
    found = [tokenizer.id_of(part) for part in parts]
    return [token for token in found if token is not None]


def _describe_token(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    return {"id": token, "text": tokenizer.token_bytes(token).decode("utf-8", "backslashreplace")}
