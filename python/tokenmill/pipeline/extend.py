"""`tokenmill.extend`: add tokens after all old ones, and write the map and the certificate."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ConfigError, InputError, InternalError
from tokenmill.pipeline.executors import choose_executor
from tokenmill.pipeline.train import count_by_parts
from tokenmill.settings.options import TrainOptions
from tokenmill.settings.resolve import from_options
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.counting import Corpus, Counted, open_corpus
from tokenmill.vocab.extension import (
    ExtendOptions,
    Extension,
    Grown,
    NewToken,
    add_characters,
    check_scripts,
    count_characters,
    extend_recipe,
    find_required_merges,
)
from tokenmill.vocab.maps import EXTENSION, certify, identify, load_base, write_vocabulary
from tokenmill.vocab.words import (
    Words,
    build_piece_tokenizer,
    check_text_kept,
    count_pieces,
    join_ids,
    to_batches,
)

# If kept documents would change, exclude those merges and repeat the training. One round is usual.
_ROUNDS = 8


def extend(
    base: str | Path | Tokenizer,
    inputs: Any = None,
    *,
    add: int,
    only_script: str | Sequence[str] = (),
    keep_ids: str | Path | Sequence[str | Path] = (),
    keep_ids_budget: float = 0.0,
    require: str | Sequence[str] = (),
    reuse_reserved: bool = False,
    pad_to_multiple: int = 1,
    **options: Unpack[TrainOptions],
) -> Tokenizer:
    """Continue the training of `base` on `inputs`: `add` new tokens after all the old ones.

    No id of `base` changes, special tokens included.

    >>> import tokenmill
    >>> base = tokenmill.train_from_iterator(["low lower lowest"] * 9, 260, progress=False)
    >>> longer = tokenmill.extend(base, iter(["방앗간이 돈다"] * 9), add=15)
    >>> base.vocab_size, longer.vocab_size
    (260, 275)
    >>> longer.encode("low") == base.encode("low")
    True

    Args:
        base: A tokenizer, or an argument of `Tokenizer.load`.
        inputs: The texts to train on, as for `train`.
        add: Number of tokens to add, including those for `require`.
        only_script: Scripts of the letters in new tokens, such as `["Hangul"]`.
        keep_ids: Files whose documents must keep exactly their present ids.
        keep_ids_budget: The share of those documents that may change.
        require: Strings that must each be one token.
        reuse_reserved: Give new tokens the ids of reserved special tokens first.
        pad_to_multiple: Round the rows of the embedding up to a multiple of this.
        options: Settings of `train`, such as `counts`, `min_frequency` (2 by default) or `text_field`.
            `output` is the directory for the tokenizer, `extension.json` and the other files of `base`.

    Returns:
        The extended tokenizer.

    Raises:
        TokenizerError: The core cannot replay the merges of `base`.
        InputError: The texts have too few pairs, or the files of `keep_ids` have no document.
        ConfigError: A script or a setting is unknown, or a string of `require` cannot be one token.
    """
    only_script = [only_script] if isinstance(only_script, str) else only_script
    keep_ids = [keep_ids] if isinstance(keep_ids, str | Path) else keep_ids
    require = [require] if isinstance(require, str) else require
    if isinstance(add, bool) or not isinstance(add, int) or add < 1:
        raise ConfigError(f"add is {add!r}; expected how many tokens to add, such as 16000")
    if given := [name for name in ("pattern", "special_tokens") if name in options]:
        raise ConfigError(f"{', '.join(given)}: an extension uses that of its base; leave it out")
    options.setdefault("min_frequency", 2)
    config = from_options(job="train", **options).config
    output, executor = config.output.path, choose_executor(config.execution)
    tokenizer = load_base(base, output, pad_to_multiple)
    check_text_kept(tokenizer)
    check_scripts(only_script)
    wanted = ExtendOptions(
        add,
        max(1, config.training.min_frequency),
        config.training.max_token_length or 1 << 16,
        config.training.tie_break,
        tuple(only_script),
        tuple(require),
        reuse_reserved,
    )
    with ExitStack() as stack:
        corpus = stack.enter_context(open_corpus(inputs, config.source))
        files = keep_ids[0] if len(keep_ids) == 1 else list(keep_ids)
        kept = stack.enter_context(open_corpus(files, config.source)) if keep_ids else None
        counted = count_pieces(
            tokenizer,
            corpus,
            config.source.counts,
            threads=config.execution.threads,
            memory_budget=config.execution.memory_budget,
            elsewhere=None if executor.in_process else partial(count_by_parts, executor=executor),
        )
        if not counted.pieces:
            raise InputError("the inputs contain no text; give files with documents, or counts")
        result, body = _extend(tokenizer, counted, wanted, kept, keep_ids_budget)
    if output is None:
        return result
    body = {
        "kind": "extension",
        "base": identify(tokenizer),
        "result": identify(result, pad_to_multiple),
    } | body
    return write_vocabulary(tokenizer, result, Path(output), EXTENSION, body)


def _extend(
    base: Tokenizer, counted: Counted, options: ExtendOptions, kept: Corpus | None, budget: float
) -> tuple[Tokenizer, dict[str, Any]]:
    """Return the new tokenizer and the fields of `extension.json` for its tokens and kept texts."""
    seen = None if kept is None else count_pieces(base, kept)
    if seen is not None and not seen.pieces:  # the number of documents is not always counted
        raise InputError("the files of keep_ids contain no text; give files with documents")
    characters: dict[str, int] = {}
    others: set[str] = set()
    if base.recipe.model is not None and base.recipe.model.kind == "chars":
        characters = count_characters(to_batches(counted))
        others = set() if seen is None else set(count_characters(to_batches(seen)))
    grown = add_characters(base, characters, options, others)
    pieces = build_piece_tokenizer(grown.tokenizer)
    words = Words.encode(pieces, to_batches(counted))
    proof = None
    if kept is None or seen is None:
        made = extend_recipe(grown.tokenizer, words, options, np.empty(0, np.uint64), grown.tokens)
    else:
        apart = Words.encode(pieces, to_batches(seen)).count_pairs()[0]
        if budget > 0:
            apart = spend_budget(grown.tokenizer, kept, words, apart, budget)
        _check_required(grown, options.required, apart, others)
        made, proof = _prove(grown, words, options, apart, kept, budget)
    return Tokenizer(made.recipe), _describe(base, made, words, grown.tokens, proof)


def _describe(
    base: Tokenizer,
    made: Extension,
    words: Words,
    characters: Sequence[NewToken],
    proof: dict[str, Any] | None,
) -> dict[str, Any]:
    seen = np.bincount(words.ids, np.repeat(words.counts, np.diff(words.offsets)), base.vocab_size)
    for token in characters:
        np.add.at(seen, list(token.parts), token.count)
    parts = {part for token in made.tokens for part in token.parts}
    return {
        "certificate": proof,
        "old_counts": {str(part): int(seen[part]) for part in sorted(parts)},
        "tokens": [
            {
                "id": token.id,
                "text": token.bytes.decode("utf-8", "replace"),
                "bytes": token.bytes.hex(),
                "parts": list(token.parts),
                "count": token.count,
            }
            for token in made.tokens
        ],
    }


def _check_required(
    grown: Grown, strings: Sequence[str], apart: NDArray[np.uint64], others: set[str]
) -> None:
    """Raise `ConfigError` for a string whose merges would change a kept document."""
    base = grown.tokenizer
    fresh = others & {token.bytes.decode() for token in grown.tokens}
    for string in strings:
        pairs = [pair for pair in find_required_merges(base, [string]) if max(pair) < base.vocab_size]
        if np.isin(join_pairs(pairs), apart).any() or not fresh.isdisjoint(string):
            raise ConfigError(
                f"{string!r} cannot be required: a document of the kept files would change; leave the string "
                "out, or keep other files"
            )


def _prove(
    grown: Grown,
    words: Words,
    options: ExtendOptions,
    apart: NDArray[np.uint64],
    kept: Corpus,
    budget: float,
) -> tuple[Extension, dict[str, Any]]:
    for _ in range(_ROUNDS):
        made = extend_recipe(grown.tokenizer, words, options, apart, grown.tokens)
        documents, changed, seen = count_changed(Tokenizer(made.recipe), made.tokens, kept)
        allowed = int(documents * budget)
        if changed <= allowed:
            return made, certify(kept, documents, changed, allowed)
        merges = zip(made.merges, made.list_products(), strict=True)
        old = [pair for pair, new in merges if new in seen and max(pair) < grown.tokenizer.vocab_size]
        apart = np.union1d(apart, join_pairs(old))
    raise InternalError(
        f"kept documents still change after {_ROUNDS} rounds; please report this with the base"
    )


def join_pairs(pairs: Sequence[tuple[int, int]]) -> NDArray[np.uint64]:
    """Return pairs of ids as `left << 32 | right`."""
    left, right = np.array(pairs, np.uint64).reshape(-1, 2).T
    return join_ids(left, right)


def spend_budget(
    base: Tokenizer, corpus: Corpus, words: Words, apart: NDArray[np.uint64], share: float
) -> NDArray[np.uint64]:
    """Return `apart` without the pairs with the largest gain per changed document.

    Pairs are released in descending order of their count in the new texts per kept document that would
    change, as long as the changed documents are at most `share` of the kept ones.
    """
    wanted, gain = words.count_pairs()
    useful = np.isin(wanted, apart)
    wanted, gain = wanted[useful], gain[useful]
    homes: dict[int, set[int]] = {int(pair): set() for pair in wanted}
    documents = 0
    for block in corpus.read_blocks():
        batch = base.encode_batch(block.texts, special="text")
        joined = join_ids(batch.ids[:-1], batch.ids[1:])
        home = np.repeat(np.arange(len(batch)), batch.lengths)
        for place in np.flatnonzero(np.isin(joined, wanted) & (home[:-1] == home[1:])).tolist():
            homes[int(joined[place])].add(documents + int(home[place]))
        documents += len(batch)
    most, changed = int(documents * share), set[int]()
    released = []
    for place in np.argsort(
        -(gain / np.maximum(1, [len(homes[int(pair)]) for pair in wanted])), kind="stable"
    ):
        pair = int(wanted[place])
        if len(changed | homes[pair]) <= most:
            changed |= homes[pair]
            released.append(pair)
    return np.setdiff1d(apart, np.array(released, np.uint64))


def count_changed(extended: Tokenizer, new: Sequence[NewToken], corpus: Corpus) -> tuple[int, int, set[int]]:
    """Encode every document. Return the number of documents, of changed ones, and the new ids in use."""
    is_new = np.zeros(extended.vocab_size, bool)
    is_new[[token.id for token in new]] = True
    documents = changed = 0
    seen: set[int] = set()
    for block in corpus.read_blocks():
        batch = extended.encode_batch(block.texts, special="text")
        places = np.flatnonzero(is_new[batch.ids])
        changed += len(np.unique(np.searchsorted(batch.offsets, places, side="right")))
        seen |= set(np.unique(batch.ids[places]).tolist())
        documents += len(batch)
    return documents, changed, seen
