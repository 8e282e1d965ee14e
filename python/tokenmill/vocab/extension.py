"""Extend a vocabulary by continued BPE: new tokens after all old ones, so that no old id or merge changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import _core
from tokenmill.errors import ConfigError, InputError
from tokenmill.tokenizer.files.sentencepiece import to_hf_normalizer
from tokenmill.tokenizer.recipe import Json, Recipe, number_tokens
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.untrained import RESERVED
from tokenmill.vocab.words import Words, build_piece_tokenizer, spell_tokens

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class NewToken:
    """A new token: its bytes, the old ids that it replaces, and its count."""

    id: int
    bytes: bytes
    parts: tuple[int, ...]
    count: int


@dataclass(frozen=True)
class ExtendOptions:
    """The options of an extension."""

    add: int
    min_frequency: int = 2
    max_token_length: int = 1 << 16
    tie_break: str = "huggingface"
    scripts: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    reuse_reserved: bool = False


def check_scripts(names: Sequence[str]) -> None:
    """Raise an error for an unknown script before anything is read."""
    _core.in_scripts([], list(names))


@dataclass(frozen=True)
class NewIds:
    """The ids of new tokens in order, and those taken from reserved special tokens."""

    ids: tuple[int, ...]
    taken: frozenset[int]

    @classmethod
    def choose(cls, base: Tokenizer, number: int, *, reuse_reserved: bool) -> NewIds:
        """Return the ids after the last of `base`, after the reserved ones if they may be used."""
        special = sorted((token.id, token.content) for token in base.recipe.added if token.special)
        kept = [token_id for token_id, content in special if RESERVED.search(content)]
        reserved = kept[:number] if reuse_reserved else []
        first = base.vocab_size
        ids = (*reserved, *range(first, first + number - len(reserved)))
        return cls(ids, frozenset(reserved))

    def make_table(self, tokens: Iterable[bytes | None]) -> list[bytes | None]:
        """Return a copy of a table of tokens with room for the new ones."""
        table = list(tokens)
        return table + [None] * (max(self.ids, default=-1) + 1 - len(table))

    def drop_taken(self, recipe: Recipe) -> Recipe:
        """Return the recipe, with its config files, without the special tokens whose ids are taken."""
        model = recipe.model
        assert model is not None, "check_base comes first"
        if not self.taken:
            return recipe
        gone = {token.content for token in recipe.added if token.id in self.taken}
        return replace(
            recipe,
            model=replace(
                model, unreachable=tuple((i, data) for i, data in model.unreachable if i not in self.taken)
            ),
            added=tuple(token for token in recipe.added if token.id not in self.taken),
            config=_drop_tokens(recipe.config, self.taken, gone),
        )


def _drop_tokens(config: Json, ids: frozenset[int], contents: set[str]) -> Json:
    """Return a `tokenizer_config.json` without these tokens."""

    def get_content(entry: Any) -> Any:
        return entry.get("content") if isinstance(entry, dict) else entry

    out = dict(config)
    listed = out.get("added_tokens_decoder")
    if isinstance(listed, dict):
        out["added_tokens_decoder"] = {
            key: value for key, value in listed.items() if not (key.isdigit() and int(key) in ids)
        }
    for key in ("additional_special_tokens", "extra_special_tokens"):
        names = out.get(key)
        if isinstance(names, list):
            out[key] = [entry for entry in names if get_content(entry) not in contents]
    return out


# The rarest characters of a text are left to bytes, as SentencePiece's own trainer does by default.
COVERAGE = 0.9995


def count_characters(batches: Iterable[tuple[pa.Array, NDArray[np.uint64]]]) -> dict[str, int]:
    """Return the count of each character in counted pieces."""
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
    """A base with the characters that were added to it."""

    tokenizer: Tokenizer
    tokens: tuple[NewToken, ...]


def add_characters(
    base: Tokenizer, counts: dict[str, int], options: ExtendOptions, kept: Collection[str]
) -> Grown:
    """Return `base` with the characters that the texts need, most frequent first, without those of `kept`."""
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
    needed = [c for c in dict.fromkeys("".join(options.required)) if c != " " and c.encode() not in known]
    if len(needed) > options.add:
        raise ConfigError(
            f"the required strings have {len(needed):,} characters that {base.source} lacks, but only "
            f"{options.add:,} tokens may be added; raise --add"
        )
    chosen = [*needed, *(c for c in _choose_frequent(counts, lacking, options) if c not in {*needed, *kept})]
    return _grow(base, chosen[: options.add], lacking, options)


def _choose_frequent(counts: dict[str, int], lacking: dict[str, int], options: ExtendOptions) -> list[str]:
    """Return the most frequent missing characters, until `COVERAGE` of the text is known."""
    ordered = sorted(lacking, key=lambda character: (-lacking[character], character))
    if options.scripts:
        fits = _core.in_scripts([character.encode() for character in ordered], list(options.scripts))
        ordered = [character for character, fit in zip(ordered, fits, strict=True) if fit]
    unknown = sum(lacking[character] for character in ordered)
    allowed = (1.0 - COVERAGE) * sum(counts.values())
    frequent = []
    for character in ordered:
        if unknown <= allowed or lacking[character] < options.min_frequency:
            break
        unknown -= lacking[character]
        frequent.append(character)
    return frequent


def _grow(base: Tokenizer, characters: list[str], counts: dict[str, int], options: ExtendOptions) -> Grown:
    if not characters:
        return Grown(base, ())
    model = base.recipe.model
    assert model is not None
    alone = build_piece_tokenizer(base)
    places = NewIds.choose(base, len(characters), reuse_reserved=options.reuse_reserved)
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


Pair = tuple[int, int]


@dataclass(frozen=True)
class Extension:
    """The recipe of an extended tokenizer, its new tokens and merges."""

    recipe: Recipe
    tokens: tuple[NewToken, ...]
    merges: tuple[Pair, ...]

    def list_products(self) -> list[int]:
        """Return the token that each merge makes."""
        model = self.recipe.model
        assert model is not None, "an extension is one of a model"
        ids = {token.bytes: token.id for token in self.tokens}
        return [
            ids[(model.tokens[left] or b"") + (model.tokens[right] or b"")] for left, right in self.merges
        ]


def extend_recipe(
    base: Tokenizer,
    words: Words,
    options: ExtendOptions,
    apart: NDArray[np.uint64],
    characters: Sequence[NewToken] = (),
) -> Extension:
    """Return the extension by `options.add` tokens; pairs in `apart` (`left << 32 | right`) never merge.

    `characters` are those of the new tokens that `base` has already.
    """
    options = replace(options, add=options.add - len(characters))
    old, model = spell_tokens(base), base.recipe.model
    merger = _core.PairMerger.from_vocabulary(
        np.frombuffer(b"".join(old), np.uint8),
        np.concatenate([[0], np.cumsum([len(token) for token in old])]).astype(np.int64),
        words.ids,
        words.offsets,
        words.counts,
        tokens=len(old) + options.add,
        min_frequency=max(1, options.min_frequency),
        max_token_length=options.max_token_length,
        tie_break=options.tie_break,
        apart=_flatten(apart),
        scripts=list(options.scripts),
        # Tokens of such a model are strings; byte tokens stay bytes.
        whole_characters=model is not None and model.kind == "chars",
    )
    required = find_required_merges(base, options.required)
    if len(required) > options.add:
        raise ConfigError(
            f"the required strings need {len(required):,} tokens, but only {options.add:,} may be added; "
            f"raise --add to {len(required):,} or more"
        )
    merger.require(np.asarray(required, np.uint32).reshape(-1))
    while not merger.advance(1 << 16):
        pass
    made = list(merger.tokens())[len(old) :]
    if len(made) < options.add:
        raise InputError(
            f"only {len(characters) + len(made):,} new tokens can be learned from these texts, "
            f"{len(characters) + options.add:,} were requested: no other pair that may merge occurs "
            f"{max(1, options.min_frequency)} times; add fewer, give more text, or lower min_frequency"
        )
    return _assemble(base, options, made, list(merger.merges()), merger.counts().tolist(), characters)


def _flatten(pairs: NDArray[np.uint64]) -> NDArray[np.uint32]:
    left, right = pairs >> np.uint64(32), pairs & np.uint64(0xFFFFFFFF)
    return np.ascontiguousarray(np.stack([left, right], axis=1).astype(np.uint32).reshape(-1))


def find_required_merges(base: Tokenizer, strings: Sequence[str]) -> list[Pair]:
    """Return the merges that make each string one token; no merge undoes an earlier one."""
    if not strings:
        return []
    merges: dict[Pair, int] = {}
    alone, spelled = build_piece_tokenizer(base), spell_tokens(base)
    old = set(spelled)
    for string in dict.fromkeys(strings):
        if len(base.engine.piece_ends(string, "text") or ()) != 1:
            raise ConfigError(
                f"{string!r} cannot be one token: this tokenizer cuts it into pieces, and no token spans "
                "two; remove it from the list, or require its parts"
            )
        ids = alone.encode(string, special="text")
        for pair, made in merges.items():
            ids = _merge(ids, pair, made)
        while len(ids) > 1:
            # Texts that contain an old token in parts would change although no new token is used.
            fresh = [pair for pair in pairwise(ids) if spelled[pair[0]] + spelled[pair[1]] not in old]
            if not fresh:
                raise ConfigError(
                    f"{string!r} cannot become one token: each pair of its {len(ids)} tokens already forms a "
                    "token of the base that its merges do not produce here; remove it from the list"
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
    options: ExtendOptions,
    made: list[Any],
    merges: list[Pair],
    counts: list[int],
    characters: Sequence[NewToken],
) -> Extension:
    first = base.vocab_size
    places = NewIds.choose(base, len(made), reuse_reserved=options.reuse_reserved)
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
        # Hugging Face reads the saved file and must give the same ids.
        normalizer=to_hf_normalizer(base.recipe.normalizer),
        added=tuple(replace(token, piece=False) for token in recipe.added),
        hf=None,
        source=f"{base.source} + {total:,}",
    )
    return Extension(recipe, (*characters, *new), renamed)
