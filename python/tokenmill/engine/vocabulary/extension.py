"""Continued BPE: new tokens after all the old ones, so that no old id and no old merge changes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core
from tokenmill.base.errors import ConfigError, InputError
from tokenmill.engine.files.splits import merges_of
from tokenmill.engine.recipe import number_tokens
from tokenmill.engine.vocabulary.words import piece_tokenizer, surface

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tokenmill.engine.recipe import Recipe
    from tokenmill.engine.tokenizer import Tokenizer
    from tokenmill.engine.vocabulary.words import Words

Pair = tuple[int, int]
# What vocabularies call the tokens that they keep for later.
_RESERVED = re.compile(r"reserved|unused|extra_id|extra_\d|placeholder|dummy", re.IGNORECASE)


@dataclass(frozen=True)
class NewToken:
    """A token that an extension adds: what it spells, the old ids it stands for, how often it was seen."""

    id: int
    bytes: bytes
    parts: tuple[int, ...]
    count: int


@dataclass(frozen=True)
class Extension:
    """An extended tokenizer as a recipe, and what is new in it."""

    recipe: Recipe
    tokens: tuple[NewToken, ...]
    merges: tuple[Pair, ...]


@dataclass(frozen=True)
class Wishes:
    """What decides the new tokens beside the counts."""

    add: int
    min_frequency: int = 2
    max_token_length: int = 1 << 16
    tie_break: str = "huggingface"
    scripts: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    reuse_reserved: bool = False


def extend_recipe(base: Tokenizer, words: Words, wishes: Wishes, apart: NDArray[np.uint64]) -> Extension:
    """`wishes.add` new tokens from `words`; a pair in `apart` (`left << 32 | right`) never merges."""
    old, model = surface(base), base.recipe.model
    merger = _core.PairMerger.continued(
        np.frombuffer(b"".join(old), np.uint8),
        np.concatenate([[0], np.cumsum([len(token) for token in old])]).astype(np.int64),
        words.ids,
        words.offsets,
        words.counts,
        tokens=len(old) + wishes.add,
        min_frequency=max(1, wishes.min_frequency),
        max_token_length=wishes.max_token_length,
        tie_break=wishes.tie_break,
        apart=_flat(apart),
        scripts=list(wishes.scripts),
        # Tokens of such a model are strings: what a byte token stands for stays a byte.
        whole_characters=model is not None and model.kind == "chars",
    )
    required = required_merges(base, wishes.required)
    if len(required) > wishes.add:
        raise ConfigError(
            f"the required strings take {len(required):,} tokens, and only {wishes.add:,} may be added; "
            f"raise --add to {len(required):,} or more"
        )
    merger.require(np.asarray(required, np.uint32).reshape(-1))
    while not merger.advance(1 << 16):
        pass
    made = list(merger.tokens())[len(old) :]
    if len(made) < wishes.add:
        raise InputError(
            f"only {len(made):,} new tokens can be made of these texts, {wishes.add:,} asked for: no other "
            f"pair that may merge occurs {max(1, wishes.min_frequency)} times; add fewer, give more text, or "
            "lower --min-frequency"
        )
    return _assemble(base, wishes, made, list(merger.merges()), merger.counts().tolist())


def _flat(pairs: NDArray[np.uint64]) -> NDArray[np.uint32]:
    left, right = pairs >> np.uint64(32), pairs & np.uint64(0xFFFFFFFF)
    return np.ascontiguousarray(np.stack([left, right], axis=1).astype(np.uint32).reshape(-1))


def required_merges(base: Tokenizer, strings: Sequence[str]) -> list[Pair]:
    """The merges that make each string one token, in an order in which none undoes an earlier one."""
    alone = piece_tokenizer(base)
    merges: dict[Pair, int] = {}
    for string in dict.fromkeys(strings):
        if len(base.engine.piece_ends(string, "text") or ()) != 1:
            raise ConfigError(
                f"{string!r} cannot be one token: this tokenizer cuts it into pieces, and no token spans "
                "two; leave it out, or require its parts"
            )
        ids = alone.encode(string, special="text")
        for pair, made in merges.items():
            ids = _merge(ids, pair, made)
        while len(ids) > 1:
            pair = (ids[0], ids[1])
            merges[pair] = base.vocab_size + len(merges)
            ids = _merge(ids, pair, merges[pair])
    return list(merges)


def _merge(ids: list[int], pair: Pair, made: int) -> list[int]:
    out: list[int] = []
    for token in ids:
        if out and (out[-1], token) == pair:
            out[-1] = made
        else:
            out.append(token)
    return out


def _assemble(
    base: Tokenizer, wishes: Wishes, made: list[Any], merges: list[Pair], counts: list[int]
) -> Extension:
    model = base.recipe.model
    assert model is not None, "check_base comes first"
    first = base.vocab_size
    reserved = reserved_ids(base) if wishes.reuse_reserved else []
    places = [*reserved[: len(made)], *range(first, first + max(0, len(made) - len(reserved)))]
    table = list(model.tokens) + [None] * (max([*places, first - 1]) + 1 - len(model.tokens))
    parts: dict[int, tuple[int, ...]] = {}
    count_of: dict[int, int] = {}
    by_bytes = {data: first + place for place, data in enumerate(made)}
    spelled: list[bytes] = [*surface(base), *made]
    finals = [*range(first), *places]
    for (left, right), count in zip(merges, counts, strict=True):
        token = by_bytes[spelled[left] + spelled[right]]
        if token not in parts:
            parts[token] = (*parts.get(left, (left,)), *parts.get(right, (right,)))
            count_of[token] = count
    new = []
    for place, data in enumerate(made):
        table[places[place]] = data
        new.append(NewToken(places[place], data, parts[first + place], count_of[first + place]))
    taken = set(reserved[: len(made)])
    renamed = tuple((finals[left], finals[right]) for left, right in merges)
    recipe = replace(
        base.recipe,
        model=replace(
            model,
            tokens=number_tokens(table, base.source),
            merges=_core.Merges([*merges_of(model), *renamed]),
            rank_order=(),
            scores=None,
            unreachable=tuple((i, data) for i, data in model.unreachable if i not in taken),
        ),
        added=tuple(token for token in base.recipe.added if token.id not in taken),
        hf=None,
        source=f"{base.source} + {len(made):,}",
    )
    return Extension(recipe, tuple(new), renamed)


def reserved_ids(base: Tokenizer) -> list[int]:
    """Ids of special tokens that their vocabulary keeps for later, such as `<|reserved_special_token_7|>`."""
    return sorted(
        token.id for token in base.recipe.added if token.special and _RESERVED.search(token.content)
    )
