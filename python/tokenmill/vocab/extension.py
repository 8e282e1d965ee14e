"""Continued BPE: new tokens after all the old ones, so that no old id and no old merge changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import _core
from tokenmill.errors import ConfigError, InputError
from tokenmill.tokenizer.files.sentencepiece import to_hf_normalizer
from tokenmill.tokenizer.recipe import number_tokens
from tokenmill.vocab.places import NewIds, NewToken
from tokenmill.vocab.words import build_piece_tokenizer, join_ids, spell_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tokenmill.tokenizer.recipe import Recipe
    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.vocab.places import Wishes
    from tokenmill.vocab.words import Words

Pair = tuple[int, int]


@dataclass(frozen=True)
class Extension:
    """An extended tokenizer as a recipe, and what is new in it."""

    recipe: Recipe
    tokens: tuple[NewToken, ...]
    merges: tuple[Pair, ...]

    def list_products(self) -> list[int]:
        """The token that each merge makes."""
        model = self.recipe.model
        assert model is not None, "an extension is one of a model"
        ids = {token.bytes: token.id for token in self.tokens}
        return [
            ids[(model.tokens[left] or b"") + (model.tokens[right] or b"")] for left, right in self.merges
        ]


def extend_recipe(
    base: Tokenizer,
    words: Words,
    wishes: Wishes,
    apart: NDArray[np.uint64],
    characters: Sequence[NewToken] = (),
) -> Extension:
    """`wishes.add` new tokens from `words`; a pair in `apart` (`left << 32 | right`) never merges.

    `characters` are those of the new tokens that `base` has already.
    """
    wishes = replace(wishes, add=wishes.add - len(characters))
    old, model = spell_tokens(base), base.recipe.model
    merger = _core.PairMerger.from_vocabulary(
        np.frombuffer(b"".join(old), np.uint8),
        np.concatenate([[0], np.cumsum([len(token) for token in old])]).astype(np.int64),
        words.ids,
        words.offsets,
        words.counts,
        tokens=len(old) + wishes.add,
        min_frequency=max(1, wishes.min_frequency),
        max_token_length=wishes.max_token_length,
        tie_break=wishes.tie_break,
        apart=_flatten(apart),
        scripts=list(wishes.scripts),
        # Tokens of such a model are strings: what a byte token stands for stays a byte.
        whole_characters=model is not None and model.kind == "chars",
    )
    required = find_required_merges(base, wishes.required)
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
            f"only {len(characters) + len(made):,} new tokens can be made of these texts, "
            f"{len(characters) + wishes.add:,} asked for: no other "
            f"pair that may merge occurs {max(1, wishes.min_frequency)} times; add fewer, give more text, or "
            "lower --min-frequency"
        )
    return _assemble(base, wishes, made, list(merger.merges()), merger.counts().tolist(), characters)


class PairSet:
    """Pairs of ids, looked for in many documents at once."""

    def __init__(self, pairs: Sequence[Pair], size: int) -> None:
        """Of ids below `size`."""
        self._left, self._right = np.zeros(size, bool), np.zeros(size, bool)
        left, right = np.array(pairs, np.uint64).reshape(-1, 2).T
        self._left[left] = True
        self._right[right] = True
        self._joined = np.unique(join_ids(left, right))

    def occurs_in(self, ids: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each document `ids[offsets[i]:offsets[i + 1]]` holds one of the pairs side by side."""
        # Few places pass the two tables, and only those are looked up.
        places = np.flatnonzero(self._left[ids[:-1]] & self._right[ids[1:]])
        places = places[np.isin(join_ids(ids[places], ids[places + 1]), self._joined)]
        homes = np.searchsorted(offsets, places, side="right") - 1
        found = np.zeros(len(offsets) - 1, bool)
        found[homes[places + 1 < offsets[homes + 1]]] = True
        return found


def find_added_pairs(old: Tokenizer, new: Tokenizer) -> PairSet | None:
    """The pairs of old ids that `new` joins and `old` does not; None unless `new` is an extension of `old`.

    All its own merges come last, so a text whose old ids hold none of these pairs keeps them.
    """
    before, after = old.recipe, new.recipe
    if before.model is None or after.model is None or after.model.merges is None:
        return None
    same = (
        (before.pre_tokenizer, before.normalizer, before.post_processor)
        == (after.pre_tokenizer, after.normalizer, after.post_processor)
        and set(before.added) == set(after.added)
        and before.model.kind == after.model.kind == "bytes"
        and not before.model.ignore_merges
        and not after.model.ignore_merges
        and before.model.end_of_word_suffix == after.model.end_of_word_suffix
    )
    if not same:
        return None
    merges, first = before.model.list_merges(), list(after.model.merges)
    count = len(before.model.tokens)
    if first[: len(merges)] != merges or after.model.tokens[:count] != before.model.tokens[:]:
        return None
    return PairSet([pair for pair in first[len(merges) :] if max(pair) < old.vocab_size], old.vocab_size)


def _flatten(pairs: NDArray[np.uint64]) -> NDArray[np.uint32]:
    left, right = pairs >> np.uint64(32), pairs & np.uint64(0xFFFFFFFF)
    return np.ascontiguousarray(np.stack([left, right], axis=1).astype(np.uint32).reshape(-1))


def find_required_merges(base: Tokenizer, strings: Sequence[str]) -> list[Pair]:
    """The merges that make each string one token, in an order in which none undoes an earlier one."""
    if not strings:
        return []
    merges: dict[Pair, int] = {}
    alone, spelled = build_piece_tokenizer(base), spell_tokens(base)
    old = set(spelled)
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
            # Texts that hold an old token in parts would change without a new token to show it.
            fresh = [pair for pair in pairwise(ids) if spelled[pair[0]] + spelled[pair[1]] not in old]
            if not fresh:
                raise ConfigError(
                    f"{string!r} cannot become one token: all that its {len(ids)} tokens could be joined "
                    "to are tokens of the base already, which its merges do not make here; leave it out"
                )
            pair = fresh[0]
            merges[pair] = len(spelled)
            spelled.append(spelled[pair[0]] + spelled[pair[1]])
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
    base: Tokenizer,
    wishes: Wishes,
    made: list[Any],
    merges: list[Pair],
    counts: list[int],
    characters: Sequence[NewToken],
) -> Extension:
    first = base.vocab_size
    places = NewIds.choose(base, len(made), reuse_reserved=wishes.reuse_reserved)
    finals = [*range(first), *places.ids]
    parts = {token.id: token.parts for token in characters}
    count_of: dict[int, int] = {}
    by_bytes = {data: first + place for place, data in enumerate(made)}
    spelled: list[bytes] = [*spell_tokens(base), *made]
    for (left, right), count in zip(merges, counts, strict=True):
        token = by_bytes[spelled[left] + spelled[right]]
        if token not in parts:
            parts[token] = (*parts.get(left, (left,)), *parts.get(right, (right,)))
            count_of[token] = count
    numbered = enumerate(zip(places.ids, made, strict=True), start=first)
    new = [NewToken(place, data, parts[token], count_of[token]) for token, (place, data) in numbered]
    renamed = tuple((finals[left], finals[right]) for left, right in merges)
    recipe = places.drop_taken(base.recipe)
    model = recipe.model
    assert model is not None, "check_base comes first"
    table = places.make_table(model.tokens)
    for token_id, data in zip(places.ids, made, strict=True):
        table[token_id] = data
    total = len(made) + len(characters)
    recipe = replace(
        recipe,
        model=replace(
            model,
            tokens=number_tokens(table, base.source),
            merges=_core.Merges([*model.list_merges(), *renamed]),
            rank_order=(),
        ),
        # What is written is read by HF, and must give the same ids there.
        normalizer=to_hf_normalizer(base.recipe.normalizer),
        added=tuple(replace(token, piece=False) for token in recipe.added),
        hf=None,
        source=f"{base.source} + {total:,}",
    )
    return Extension(recipe, (*characters, *new), renamed)
