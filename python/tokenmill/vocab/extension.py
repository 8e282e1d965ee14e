"""Extend a vocabulary by continued BPE: new tokens after all old ones, so that no old id or merge changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenmill import _core
from tokenmill.errors import ConfigError, InputError
from tokenmill.settings.schema import TrainingConfig
from tokenmill.tokenizer.files.sentencepiece import to_hf_normalizer
from tokenmill.tokenizer.recipe import Json, Recipe, number_tokens
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.tensors import RESERVED
from tokenmill.vocab.words import Words, build_piece_tokenizer, spell_tokens

if TYPE_CHECKING:
    import pyarrow as pa

Pair = tuple[int, int]
# The rarest characters of a text are left to bytes, as SentencePiece's own trainer does by default.
COVERAGE = 0.9995


@dataclass(frozen=True)
class NewToken:
    """A new token: its bytes, the old ids that it replaces, and its count."""

    id: int
    bytes: bytes
    parts: tuple[int, ...]
    count: int


class Extension(NamedTuple):
    """The recipe of an extended tokenizer, its new tokens and merges."""

    recipe: Recipe
    tokens: tuple[NewToken, ...]
    merges: tuple[Pair, ...]


@dataclass(frozen=True)
class ExtendOptions:
    """The options of an extension."""

    add: int
    training: TrainingConfig
    scripts: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    reuse_reserved: bool = False

    def __post_init__(self) -> None:
        """Raise an error for an unknown script."""
        _core.in_scripts([], list(self.scripts))

    @property
    def min_frequency(self) -> int:
        """Return how often a pair or character must occur."""
        return max(1, self.training.min_frequency)


def _place_tokens(base: Tokenizer, new: Sequence[bytes], options: ExtendOptions) -> tuple[list[int], Recipe]:
    """Return the ids of new tokens, and the recipe of `base` with these tokens.

    The ids follow the last one of `base`. With `reuse_reserved`, those of reserved special tokens come
    first, and these special tokens are removed.
    """
    recipe, model = base.recipe, base.recipe.model
    assert model is not None, "check_base comes first"
    reserved = {t.id: t.content for t in recipe.added if t.special and RESERVED.search(t.content)}
    taken = sorted(reserved)[: len(new)] if options.reuse_reserved else []
    ids = [*taken, *range(base.vocab_size, base.vocab_size + len(new) - len(taken))]
    table = dict(enumerate(model.tokens)) | dict(zip(ids, new, strict=True))
    tokens = number_tokens((table.get(token_id) for token_id in range(max(table) + 1)), base.source)
    unreachable = tuple(pair for pair in model.unreachable if pair[0] not in taken)
    return ids, replace(
        recipe,
        model=replace(model, tokens=tokens, unreachable=unreachable),
        added=tuple(token for token in recipe.added if token.id not in taken),
        config=_drop_tokens(recipe.config, {str(each): reserved[each] for each in taken}),
        hf=None,
    )


def _drop_tokens(config: Json, gone: dict[str, str]) -> Json:
    """Return a `tokenizer_config.json` without these tokens, given by id."""
    out = dict(config)
    if isinstance(listed := out.get("added_tokens_decoder"), dict):
        out["added_tokens_decoder"] = {key: value for key, value in listed.items() if key not in gone}
    for key in ("additional_special_tokens", "extra_special_tokens"):
        if isinstance(names := out.get(key), list):
            contents = [each.get("content") if isinstance(each, dict) else each for each in names]
            pairs = zip(names, contents, strict=True)
            out[key] = [each for each, content in pairs if content not in gone.values()]
    return out


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


def add_characters(
    base: Tokenizer, counts: dict[str, int], options: ExtendOptions, kept: Iterable[str]
) -> tuple[Tokenizer, tuple[NewToken, ...]]:
    """Return `base` with the characters that the texts need, and these: most frequent first, none of `kept`.

    Required strings take precedence. Raise `ConfigError` if one has a new character that is in `kept`.
    """
    model = base.recipe.model
    assert model is not None, "check_base comes first"
    known = {*model.tokens, b" "}
    lacking = {each: count for each, count in counts.items() if each.encode() not in known}
    needed = [each for each in dict.fromkeys("".join(options.required)) if each.encode() not in known]
    if len(needed) > options.add:
        raise ConfigError(
            f"the required strings have {len(needed):,} characters that {base.source} lacks, but only "
            f"{options.add:,} tokens may be added; raise `add`"
        )
    for string in options.required:
        if not set(needed).intersection(kept).isdisjoint(string):
            raise _refuse_required(string)
    frequent = _choose_frequent(counts, lacking, options)
    chosen = [*needed, *(each for each in frequent if each not in {*needed, *kept})][: options.add]
    if not chosen:
        return base, ()
    alone = build_piece_tokenizer(base)
    ids, recipe = _place_tokens(base, [each.encode() for each in chosen], options)
    tokens = tuple(
        NewToken(token_id, each.encode(), tuple(alone.encode(each, special="text")), lacking.get(each, 0))
        for token_id, each in zip(ids, chosen, strict=True)
    )
    return Tokenizer(recipe), tokens


def _refuse_required(string: str) -> ConfigError:
    return ConfigError(
        f"{string!r} cannot be required: a document of the kept files would change; leave the string "
        "out, or keep other files"
    )


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


def extend_recipe(
    base: Tokenizer,
    words: Words,
    options: ExtendOptions,
    apart: NDArray[np.uint32],
    characters: Sequence[NewToken] = (),
) -> Extension:
    """Return the extension by `options.add` tokens; the pairs of ids in `apart` never merge.

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
        min_frequency=options.min_frequency,
        max_token_length=options.training.max_token_length or 1 << 16,
        tie_break=options.training.tie_break,
        apart=np.ascontiguousarray(apart.reshape(-1)),
        scripts=list(options.scripts),
        # Tokens of such a model are strings; byte tokens stay bytes.
        whole_characters=model is not None and model.kind == "chars",
    )
    required = find_required_merges(base, options.required)
    if len(required) > options.add:
        raise ConfigError(
            f"the required strings need {len(required):,} tokens, but only {options.add:,} may be added; "
            f"raise `add` to {len(required):,} or more"
        )
    merger.require(np.asarray(required, np.uint32).reshape(-1))
    while not merger.advance(1 << 16):
        pass
    made = list(merger.tokens())[len(old) :]
    if len(made) < options.add:
        raise InputError(
            f"only {len(characters) + len(made):,} new tokens can be learned from these texts, "
            f"{len(characters) + options.add:,} were requested: no other pair that may merge occurs "
            f"{options.min_frequency} times; add fewer, give more text, or lower min_frequency"
        )
    return _assemble(base, options, made, list(merger.merges()), merger.counts().tolist(), characters)


def check_required(base: Tokenizer, strings: Sequence[str], apart: NDArray[np.uint32]) -> None:
    """Raise `ConfigError` for a string whose merges would change a kept document."""
    for string in strings:
        if any((apart == pair).all(axis=1).any() for pair in find_required_merges(base, [string])):
            raise _refuse_required(string)


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
    """Return the extension by the tokens and merges that the core made, whose ids follow those of `base`."""
    first = base.vocab_size
    parts = {token.id: token.parts for token in characters}
    count_of: dict[int, int] = {}
    by_bytes = {data: first + place for place, data in enumerate(made)}
    spelled: list[bytes] = [*spell_tokens(base), *made]
    for (left, right), count in zip(merges, counts, strict=True):
        token = by_bytes[spelled[left] + spelled[right]]
        if token not in parts:
            parts[token] = (*parts.get(left, (left,)), *parts.get(right, (right,)))
            count_of[token] = count
    ids, recipe = _place_tokens(base, made, options)
    finals = [*range(first), *ids]
    new = [NewToken(finals[token], spelled[token], parts[token], count) for token, count in count_of.items()]
    renamed = tuple((finals[left], finals[right]) for left, right in merges)
    model = base.recipe.model
    assert recipe.model is not None
    assert model is not None
    recipe = replace(
        recipe,
        model=replace(recipe.model, merges=_core.Merges([*model.list_merges(), *renamed]), rank_order=()),
        # Hugging Face reads the saved file and must give the same ids.
        normalizer=to_hf_normalizer(base.recipe.normalizer),
        added=tuple(replace(token, piece=False) for token in recipe.added),
        source=f"{base.source} + {len(made) + len(characters):,}",
    )
    return Extension(recipe, (*characters, *new), renamed)
