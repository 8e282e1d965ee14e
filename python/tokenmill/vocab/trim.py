"""Drop tokens that a corpus does not need, leaf first, so that every token that stays can still be merged.

A leaf is a token that no merge of a remaining token uses. A text whose encoding has none of the dropped
tokens keeps its tokens: any dropped token formed on the way would be in its encoding, or in a larger
token that was dropped before.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill._core import Merges
from tokenmill.errors import ConfigError, InputError
from tokenmill.settings.schema import SourceConfig
from tokenmill.tokenizer.files.sentencepiece import to_hf_normalizer
from tokenmill.tokenizer.recipe import Model, Recipe, number_tokens
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.counting import open_corpus
from tokenmill.vocab.maps import load_base, write_vocabulary
from tokenmill.vocab.words import spell_tokens

Pair = tuple[int, int]


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
        output: Where to write the tokenizer and `trim.json`, which has the old id of each new one.
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
    model = tokenizer.recipe.model
    assert model is not None, "load_base checked it"
    if (size is None) == (min_count is None):
        raise ConfigError("give either `size` or `min_count`")
    old, merges = spell_tokens(tokenizer), model.list_merges()
    ids = {token: token_id for token_id, token in enumerate(old) if token}
    products = [ids[old[left] + old[right]] for left, right in merges]
    keep = _find_untouchable(tokenizer, model, old)
    keep |= {token for string in protect for token in tokenizer.encode(string, special="text")}
    named = {token_id for token_id, token in enumerate(model.tokens) if token is not None}
    named |= {token.id for token in tokenizer.recipe.added}
    counts = _count_tokens(tokenizer, keep_on, threads, SourceConfig(**source))
    most = len(named) if size is None else len(named) - size
    dropped = _drop_leaves(merges, products, counts, keep, old, most, min_count)
    if size is not None and len(dropped) < most:
        least = len(named) - len(dropped)
        raise ConfigError(
            f"{least:,} tokens must stay (bytes, special and protected tokens, and their parts), but `size` "
            f"is {size:,}; use at least {least:,}"
        )
    named |= {token_id for token_id, _ in model.unreachable}
    new_of = {token_id: new for new, token_id in enumerate(sorted(named - set(dropped)))}
    kept = [
        (new_of[left], new_of[right])
        for (left, right), product in zip(merges, products, strict=True)
        if product in new_of
    ]
    result = Tokenizer(_renumber_recipe(tokenizer.recipe, model, new_of, kept))
    if output is None:
        return result
    body = {"old_ids": list(new_of), "dropped": len(dropped)}
    return write_vocabulary(tokenizer, result, Path(output), pad_to_multiple, body, new_of)


def _count_tokens(
    base: Tokenizer, texts: Any, threads: int | None, source: SourceConfig
) -> NDArray[np.int64]:
    counts, documents = np.zeros(base.vocab_size, np.int64), 0
    with open_corpus(texts, source) as corpus:
        for block in corpus.read_blocks():
            batch = base.encode_batch(block.texts, special="text", threads=threads)
            counts += np.bincount(batch.ids, minlength=base.vocab_size)
            documents += len(batch)
    if not documents:
        raise InputError("keep_on has no documents; give files with text")
    return counts


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


def _renumber_recipe(recipe: Recipe, model: Model, new_of: dict[int, int], merges: list[Pair]) -> Recipe:
    """Return the recipe of the tokens in `new_of`, which are their new ids, with these merges."""
    config = dict(recipe.config)
    if isinstance(listed := config.get("added_tokens_decoder"), dict):
        config["added_tokens_decoder"] = {
            str(new_of[int(key)]): value for key, value in listed.items() if int(key) in new_of
        }
    return replace(
        recipe,
        model=replace(
            model,
            tokens=number_tokens(
                (model.tokens[i] if i < len(model.tokens) else None for i in new_of), recipe.source
            ),
            merges=Merges(merges),
            rank_order=(),
            unk_id=None if model.unk_id is None else new_of[model.unk_id],
            unreachable=tuple((new_of[i], data) for i, data in model.unreachable),
        ),
        added=tuple(replace(token, id=new_of[token.id], piece=False) for token in recipe.added),
        post_processor=_renumber(recipe.post_processor, new_of),
        config=config,
        # Hugging Face reads the saved file and must give the same ids.
        normalizer=to_hf_normalizer(recipe.normalizer),
        hf=None,
        source=f"{recipe.source}, {len(new_of):,} ids",
    )


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
