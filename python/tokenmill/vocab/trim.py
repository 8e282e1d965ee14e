"""Drop tokens that a corpus does not need, leaf first, so that every token that stays can still be merged.

A leaf is a token that no merge of a remaining token uses. A text whose encoding has none of the dropped
tokens keeps its tokens: any dropped token formed on the way would be in its encoding, or in a larger
token that was dropped before.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill._core import Merges
from tokenmill.errors import ConfigError, InputError, InternalError
from tokenmill.settings.schema import SourceConfig
from tokenmill.tokenizer.files.sentencepiece import to_hf_normalizer
from tokenmill.tokenizer.recipe import Json, Model, Recipe, number_tokens
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.counting import Corpus, open_corpus
from tokenmill.vocab.maps import TRIM, certify, identify, load_base, write_vocabulary
from tokenmill.vocab.words import spell_tokens

Pair = tuple[int, int]


@dataclass(frozen=True)
class Trim:
    """The recipe of a trimmed tokenizer; `old_ids[new]` is the former id of a token."""

    recipe: Recipe
    old_ids: tuple[int, ...]
    dropped: tuple[int, ...]

    @property
    def new_ids(self) -> dict[int, int]:
        """The new id of each old one."""
        return {old: new for new, old in enumerate(self.old_ids)}


def trim_recipe(
    base: Tokenizer,
    counts: NDArray[np.int64],
    *,
    size: int | None = None,
    min_count: int | None = None,
    protect: Collection[int] = (),
) -> Trim:
    """Drop the least used leaves until `size` ids are left, or until every leaf occurs `min_count` times."""
    model = base.recipe.model
    assert model is not None, "check_base comes first"
    if (size is None) == (min_count is None):
        raise ConfigError("give either --size or --min-count")
    old = spell_tokens(base)
    merges = model.list_merges()
    ids = {token: token_id for token_id, token in enumerate(old) if token}
    products = [ids[old[left] + old[right]] for left, right in merges]
    keep = _find_untouchable(base, model, old) | set(protect)
    whole = sum(1 for token in old if token) + len(
        {token.id for token in base.recipe.added} - _list_own(model)
    )
    left = whole - size if size is not None else whole
    dropped = _drop_leaves(merges, products, counts, keep, old, left, min_count)
    if size is not None and whole - len(dropped) > size:
        raise ConfigError(
            f"{whole - len(dropped):,} tokens must stay (bytes, special and protected tokens, and their "
            f"parts), but --size is {size:,}; use at least {whole - len(dropped):,}"
        )
    return _assemble(base, model, merges, products, dropped)


def _list_own(model: Model) -> set[int]:
    return {token_id for token_id, token in enumerate(model.tokens) if token is not None}


def _find_untouchable(base: Tokenizer, model: Model, old: list[bytes]) -> set[int]:
    """Return bytes, special tokens, the unknown token and, without byte fallback, all characters."""
    keep = {token.id for token in base.recipe.added}
    keep |= {token_id for token_id, token in enumerate(old) if len(token) == 1}
    if model.unk_id is not None:
        keep.add(model.unk_id)
    if model.byte_fallback:
        keep |= {token_id for token_id, token in enumerate(old) if token[:1] == b"\xff"}
    elif model.kind == "chars":
        keep |= {token_id for token_id, token in enumerate(old) if len(token.decode(errors="replace")) == 1}
    return keep


def _drop_leaves(
    merges: list[Pair],
    products: list[int],
    counts: NDArray[np.int64],
    keep: set[int],
    old: list[bytes],
    most: int,
    min_count: int | None,
) -> list[int]:
    users = np.zeros(len(old), np.int64)
    splits: dict[int, list[Pair]] = {}
    for (left, right), product in zip(merges, products, strict=True):
        users[left] += 1
        users[right] += 1
        splits.setdefault(product, []).append((left, right))
    weight = counts.astype(np.int64).tolist()
    # The least used token first; among equals the one learned last.
    heap = [(weight[i], -i) for i, token in enumerate(old) if token and i not in keep and not users[i]]
    heapq.heapify(heap)
    dropped: list[int] = []
    while heap and len(dropped) < most:
        count, negative = heapq.heappop(heap)
        token = -negative
        if count != weight[token]:
            heapq.heappush(heap, (weight[token], negative))
            continue
        if min_count is not None and count >= min_count:
            break
        dropped.append(token)
        for place, (left, right) in enumerate(splits.get(token, ())):
            for part in (left, right):
                # Replace the token by its parts, by its first split.
                weight[part] += count if place == 0 else 0
                users[part] -= 1
                if not users[part] and part not in keep:
                    heapq.heappush(heap, (weight[part], -part))
    return dropped


def _assemble(
    base: Tokenizer, model: Model, merges: list[Pair], products: list[int], dropped: list[int]
) -> Trim:
    gone = set(dropped)
    own = _list_own(model)
    named = own | {i for i, _ in model.unreachable} | {token.id for token in base.recipe.added}
    old_ids = tuple(sorted(named - gone))
    new_of = {old: new for new, old in enumerate(old_ids)}
    tokens: list[bytes | None] = [model.tokens[i] if i in own else None for i in old_ids]
    kept = [
        (new_of[left], new_of[right])
        for (left, right), product in zip(merges, products, strict=True)
        if product not in gone
    ]
    recipe = replace(
        base.recipe,
        model=replace(
            model,
            tokens=number_tokens(tokens, base.source),
            merges=Merges(kept),
            rank_order=(),
            unk_id=None if model.unk_id is None else new_of[model.unk_id],
            unreachable=tuple((new_of[i], data) for i, data in model.unreachable if i not in gone),
        ),
        added=tuple(replace(token, id=new_of[token.id], piece=False) for token in base.recipe.added),
        post_processor=_renumber(base.recipe.post_processor, new_of),
        config=_renumber_config(base.recipe.config, new_of),
        # Hugging Face reads the saved file and must give the same ids.
        normalizer=to_hf_normalizer(base.recipe.normalizer),
        hf=None,
        source=f"{base.source} - {len(dropped):,}",
    )
    return Trim(recipe, old_ids, tuple(sorted(dropped)))


def _renumber(step: Any, new_of: dict[int, int]) -> Any:
    """Return a post-processor with renumbered special tokens."""
    if isinstance(step, list):
        return [_renumber(item, new_of) for item in step]
    if not isinstance(step, dict):
        return step
    out = {key: _renumber(value, new_of) for key, value in step.items()}
    if isinstance(out.get("ids"), list):
        out["ids"] = [new_of[token] for token in out["ids"]]
    for key in ("cls", "sep"):
        if isinstance(out.get(key), list) and len(out[key]) == 2:
            out[key] = [out[key][0], new_of[out[key][1]]]
    return out


def _renumber_config(config: Json, new_of: dict[int, int]) -> Json:
    listed = config.get("added_tokens_decoder")
    if not isinstance(listed, dict):
        return config
    renamed = {
        str(new_of[int(key)]): value for key, value in listed.items() if key.isdigit() and int(key) in new_of
    }
    return {**config, "added_tokens_decoder": renamed}


def trim(
    base: str | Path | Tokenizer,
    keep_on: Any,
    *,
    output: str | Path | None = None,
    size: int | None = None,
    min_count: int | None = None,
    protect: Sequence[str] = (),
    pad_to_multiple: int = 1,
    threads: int | None = None,
    **source: Any,
) -> Tokenizer:
    """Drop the tokens of `base` that the texts of `keep_on` need least; ids become dense.

    >>> import tokenmill
    >>> base = tokenmill.train_from_iterator(["low lower lowest"] * 9, 262, progress=False)
    >>> tokenmill.trim(base, iter(["low low"]), size=259).decode([1, 2])
    '!"'

    Args:
        base: A tokenizer, or whatever `Tokenizer.load` takes.
        keep_on: The texts that decide what is needed, as `train` takes them.
        output: Where to write the tokenizer and `trim.json`, the map of its ids.
        size: How many tokens to keep, or
        min_count: how often a token must occur to be kept.
        protect: Strings whose tokens stay whatever their counts.
        pad_to_multiple: Round the rows of the embedding up to a multiple of this.
        threads: Threads for encoding.
        **source: Settings of the source, such as `text_field`.

    Returns:
        The trimmed tokenizer. A text that used none of the dropped tokens has the same tokens as before.

    Raises:
        TokenizerError: The core does not run `base`.
        ConfigError: Fewer tokens asked for than must stay, or neither `size` nor `min_count`.
        InputError: The texts are empty.
    """
    tokenizer = load_base(base, output, pad_to_multiple)
    if output is not None and isinstance(keep_on, Iterator):
        raise ConfigError(
            "keep_on is an iterator, but the texts are read twice; give files, Arrow data or a dataset"
        )
    guarded = {token for string in protect for token in tokenizer.encode(string, special="text")}
    with open_corpus(keep_on, SourceConfig(**source)) as corpus:
        counts, documents = _count_tokens(tokenizer, corpus, threads)
        if not documents:
            raise InputError("keep_on has no documents; give files with text")
        made = trim_recipe(tokenizer, counts, size=size, min_count=min_count, protect=guarded)
        result = Tokenizer(made.recipe)
        if output is not None:
            body = {
                "kind": "trim",
                "base": identify(tokenizer),
                "result": identify(result, pad_to_multiple),
                "certificate": _prove_trim(tokenizer, result, made, corpus),
                "old_ids": list(made.old_ids),
                "dropped": len(made.dropped),
            }
            result = write_vocabulary(tokenizer, result, Path(output), TRIM, body, made.new_ids)
    return result


def _count_tokens(base: Tokenizer, corpus: Corpus, threads: int | None) -> tuple[NDArray[np.int64], int]:
    counts, documents = np.zeros(base.vocab_size, np.int64), 0
    for block in corpus.read_blocks():
        batch = base.encode_batch(block.texts, special="text", threads=threads)
        counts += np.bincount(batch.ids, minlength=base.vocab_size)
        documents += len(batch)
    return counts, documents


def _prove_trim(base: Tokenizer, result: Tokenizer, made: Trim, corpus: Corpus) -> dict[str, Any]:
    """Encode everything again and check documents without a dropped token."""
    old_of, gone = np.array(made.old_ids), np.zeros(base.vocab_size, bool)
    gone[list(made.dropped)] = True
    documents = changed = 0
    for block in corpus.read_blocks():
        before = base.encode_batch(block.texts, special="text")
        after = result.encode_batch(block.texts, special="text")
        for old, new in zip(before, after, strict=True):
            documents += 1
            if gone[old].any():
                changed += 1
            elif not np.array_equal(old_of[new], old):
                raise InternalError("a document without a dropped token changed; please report this")
    return certify(corpus, documents, changed, documents)
