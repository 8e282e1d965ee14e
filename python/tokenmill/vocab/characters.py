"""Characters that a SentencePiece-style vocabulary lacks: they become tokens before anything is merged.

Such a model begins with characters, and one that it does not know falls apart into bytes, which no merge of
strings may join. A character that becomes a token needs no merge: every engine looks it up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tokenmill import _core
from tokenmill.errors import ConfigError
from tokenmill.tokenizer.recipe import number_tokens
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.places import NewIds, NewToken
from tokenmill.vocab.words import build_piece_tokenizer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    from tokenmill.vocab.places import Wishes

# The rarest characters of a text are left to bytes, as SentencePiece's own trainer does by default.
COVERAGE = 0.9995


def count_characters(batches: Iterable[tuple[pa.Array, NDArray[np.uint64]]]) -> dict[str, int]:
    """How often each character occurs in counted pieces."""
    total: dict[str, int] = {}
    for texts, counts in batches:
        pieces = texts.to_pylist()
        points = np.frombuffer("".join(pieces).encode("utf-32-le"), np.uint32)
        weights = np.repeat(counts, [len(piece) for piece in pieces])
        found, place = np.unique(points, return_inverse=True)
        sums = np.zeros(len(found), np.uint64)
        np.add.at(sums, place, weights)
        for point, count in zip(found.tolist(), sums.tolist(), strict=True):
            total[chr(point)] = total.get(chr(point), 0) + count
    return total


@dataclass(frozen=True)
class Grown:
    """A base with the characters that it lacked."""

    tokenizer: Tokenizer
    tokens: tuple[NewToken, ...]


def add_characters(base: Tokenizer, counts: dict[str, int], wishes: Wishes, kept: Collection[str]) -> Grown:
    """`base` with the characters that the texts need, the most frequent first; none of `kept`."""
    model = base.recipe.model
    assert model is not None, "check_base comes first"
    if model.kind != "chars":
        return Grown(base, ())
    known = {token for token in model.tokens if token is not None}
    lacking = {
        character: count
        for character, count in counts.items()
        if character != " " and character.encode() not in known
    }
    needed = [c for c in dict.fromkeys("".join(wishes.required)) if c != " " and c.encode() not in known]
    if len(needed) > wishes.add:
        raise ConfigError(
            f"the required strings hold {len(needed):,} characters that {base.source} lacks, and only "
            f"{wishes.add:,} tokens may be added; raise --add"
        )
    chosen = [*needed, *(c for c in _choose_frequent(counts, lacking, wishes) if c not in {*needed, *kept})]
    return _grow(base, chosen[: wishes.add], lacking, wishes)


def _choose_frequent(counts: dict[str, int], lacking: dict[str, int], wishes: Wishes) -> list[str]:
    """What the vocabulary lacks of the text's characters, until `COVERAGE` of the text is known."""
    ordered = sorted(lacking, key=lambda character: (-lacking[character], character))
    if wishes.scripts:
        fits = _core.in_scripts([character.encode() for character in ordered], list(wishes.scripts))
        ordered = [character for character, fit in zip(ordered, fits, strict=True) if fit]
    unknown = sum(lacking[character] for character in ordered)
    allowed = (1.0 - COVERAGE) * sum(counts.values())
    frequent = []
    for character in ordered:
        if unknown <= allowed or lacking[character] < wishes.min_frequency:
            break
        unknown -= lacking[character]
        frequent.append(character)
    return frequent


def _grow(base: Tokenizer, characters: list[str], counts: dict[str, int], wishes: Wishes) -> Grown:
    if not characters:
        return Grown(base, ())
    model = base.recipe.model
    assert model is not None
    alone = build_piece_tokenizer(base)
    places = NewIds.choose(base, len(characters), reuse_reserved=wishes.reuse_reserved)
    table = places.make_table(model.tokens)
    tokens = []
    for token_id, character in zip(places.ids, characters, strict=True):
        table[token_id] = character.encode()
        parts = tuple(alone.encode(character, special="text"))
        tokens.append(NewToken(token_id, character.encode(), parts, counts.get(character, 0)))
    recipe = places.drop_taken(base.recipe)
    assert recipe.model is not None
    grown = replace(recipe.model, tokens=number_tokens(table, base.source))
    return Grown(Tokenizer(replace(recipe, model=grown, hf=None)), tuple(tokens))
