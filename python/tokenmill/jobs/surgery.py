"""`tokenmill.extend` and `trim`: another vocabulary from an old one, with the map and the proof beside it."""

from __future__ import annotations

import logging
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.durable import temporary_name
from tokenmill.base.errors import ConfigError, InputError, InternalError
from tokenmill.base.platform import sync
from tokenmill.engine.files.saving import save
from tokenmill.engine.tokenizer import Tokenizer
from tokenmill.engine.training.inputs import open_corpus
from tokenmill.engine.vocabulary.counting import batches, count_pieces
from tokenmill.engine.vocabulary.extension import Wishes, extend_recipe
from tokenmill.engine.vocabulary.kept import (
    Certificate,
    all_new,
    count_changed,
    hash_files,
    neighbours,
    spend_budget,
)
from tokenmill.engine.vocabulary.maps import EXTENSION, TRIM, write_map
from tokenmill.engine.vocabulary.trim import trim_recipe
from tokenmill.engine.vocabulary.words import Words, check_base
from tokenmill.jobs.count_parts import count_by_parts
from tokenmill.jobs.executors.choose import choose_executor
from tokenmill.settings.schema import ExecutionConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.engine.training.inputs import Corpus
    from tokenmill.engine.vocabulary.extension import Extension
    from tokenmill.engine.vocabulary.trim import Trim
    from tokenmill.settings.fields import ExecutorName, TieBreak

logger = logging.getLogger("tokenmill.surgery")
# What a tokenizer's directory holds beside `tokenizer.json`; copied as it is.
_SIDE_FILES = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
)
# A merge that an exact proof did not foresee is ruled out and the training repeated; one round is the rule.
_ROUNDS = 8


def extend(
    base: str | Path | Tokenizer,
    inputs: Any = None,
    *,
    add: int,
    output: str | Path | None = None,
    only_script: Sequence[str] = (),
    keep_ids: Sequence[str | Path] = (),
    keep_ids_budget: float = 0.0,
    require: Sequence[str] = (),
    counts: Sequence[Any] = (),
    min_frequency: int = 2,
    max_token_length: int | None = None,
    tie_break: TieBreak = "huggingface",
    reuse_reserved: bool = False,
    pad_to_multiple: int = 1,
    threads: int | None = None,
    memory_budget: int | None = None,
    executor: ExecutorName = "local",
    ray_address: str | None = None,
    **source: Any,
) -> Tokenizer:
    """Continue the training of `base` on `inputs`: `add` new tokens after all the old ones.

    No id of `base` changes, special tokens included.

    >>> import tokenmill
    >>> base = tokenmill.train(iter(["low lower lowest"] * 9), 260, progress=False)
    >>> longer = tokenmill.extend(base, iter(["방앗간이 돈다"] * 9), add=15)
    >>> base.vocab_size, longer.vocab_size
    (260, 275)
    >>> longer.encode("low") == base.encode("low")
    True

    Args:
        base: A tokenizer, or whatever `Tokenizer.load` takes.
        inputs: What to learn from, as `train` takes it.
        add: How many tokens to add, those for `require` among them.
        output: Where to write the tokenizer, `extension.json` and what else the directory of `base` holds.
        only_script: A new token's letters are all of these scripts, such as `["Hangul"]`.
        keep_ids: Files whose documents must keep exactly the ids they have.
        keep_ids_budget: The share of those documents that may change all the same.
        require: Strings that must each be one token.
        counts: Files made by `train --save-counts` with the pattern of `base`, as `train` takes them.
        min_frequency: A pair that occurs less often is not merged.
        max_token_length: No new token has more bytes.
        tie_break: Which of two equally frequent pairs goes first, as in `train`.
        reuse_reserved: Give new tokens the ids of reserved special tokens first.
        pad_to_multiple: Round the rows of the embedding up to a multiple of this.
        threads: Threads that count; the result does not depend on it.
        memory_budget: Bytes that counting may hold.
        executor: Who counts: `local`, or `ray` for a cluster.
        ray_address: An existing Ray cluster, or auto.
        **source: Settings of the source, such as `text_field`.

    Returns:
        The extended tokenizer.

    Raises:
        TokenizerError: The core cannot replay the merges of `base`.
        InputError: The texts do not hold enough pairs, or the kept files no document.
        ConfigError: A script that does not exist, a string that cannot be one token.
    """
    tokenizer = base if isinstance(base, Tokenizer) else Tokenizer.load(base)
    check_base(tokenizer)
    _check_output(output)
    if isinstance(add, bool) or not isinstance(add, int) or add < 1:
        raise ConfigError(f"add is {add!r}; expected how many tokens to add, such as 16000")
    wishes = Wishes(
        add,
        min_frequency,
        max_token_length or 1 << 16,
        tie_break,
        tuple(only_script),
        tuple(require),
        reuse_reserved,
    )
    config = SourceConfig(**source)
    with ExitStack() as stack:
        corpus = stack.enter_context(open_corpus(inputs, config))
        kept = stack.enter_context(open_corpus(list(keep_ids), config)) if keep_ids else None
        counted = count_pieces(
            tokenizer,
            corpus,
            counts,
            threads=threads,
            memory_budget=memory_budget,
            elsewhere=_on_cluster(ExecutionConfig(executor=executor, ray_address=ray_address), output),
        )
        if not counted.pieces:
            raise InputError("the inputs hold no text to learn from; name files with documents, or counts")
        words = Words.of(tokenizer, batches(counted))
        made, proof = _extend_and_prove(tokenizer, words, wishes, kept, keep_ids_budget)
    result = Tokenizer(made.recipe)
    if output is not None:
        body = _describe_extension(tokenizer, result, made, words, pad_to_multiple, proof)
        _write(tokenizer, result, Path(output), EXTENSION, body)
    return result


def _on_cluster(execution: ExecutionConfig, output: str | Path | None) -> Any:
    """How an executor that is not this process counts; None for this one."""
    executor = choose_executor(execution)
    if executor.in_process:
        return None
    if output is None:
        raise ConfigError(
            f"--executor {execution.executor} needs --output, in a directory that all nodes see"
        )

    def count(counting: Any, options: Any, corpus: Corpus) -> None:
        # Beside the output, which all nodes see and which must be new at the end.
        folder = temporary_name(Path(output))
        try:
            count_by_parts(counting, options, corpus, executor, folder, lambda _amount, **_counts: None)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return count


def _extend_and_prove(
    base: Tokenizer, words: Words, wishes: Wishes, kept: Corpus | None, budget: float
) -> tuple[Extension, Certificate | None]:
    if kept is None:
        return extend_recipe(base, words, wishes, np.empty(0, np.uint64)), None
    apart = neighbours(base, kept)
    if budget > 0:
        apart = spend_budget(base, kept, words, apart, budget)
    for _ in range(_ROUNDS):
        made = extend_recipe(base, words, wishes, apart)
        documents, changed, seen = count_changed(Tokenizer(made.recipe), all_new(made.tokens), kept)
        allowed = int(documents * budget)
        if changed <= allowed:
            return made, Certificate(hash_files(kept), documents, changed, allowed)
        merges = {pair for pair, token in zip(made.merges, _products(made), strict=True) if token in seen}
        more = [left << 32 | right for left, right in merges if max(left, right) < base.vocab_size]
        apart = np.union1d(apart, np.array(more, np.uint64))
    raise InternalError(
        f"kept documents still change after {_ROUNDS} rounds; please report this with the base"
    )


def _products(made: Extension) -> list[int]:
    ids = {token.bytes: token.id for token in made.tokens}
    spelled = {token.id: token.bytes for token in made.tokens}
    model = made.recipe.model
    assert model is not None

    def spell(token: int) -> bytes:
        return spelled.get(token) or model.tokens[token] or b""

    return [ids.get(spell(left) + spell(right), -1) for left, right in made.merges]


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
    >>> base = tokenmill.train(iter(["low lower lowest"] * 9), 262, progress=False)
    >>> tokenmill.trim(base, iter(["low low"]), size=258).decode([0, 1])
    '!"'

    Args:
        base: A tokenizer, or whatever `Tokenizer.load` takes.
        keep_on: The texts that decide what is needed, as `train` takes them.
        output: Where to write the tokenizer and `trim.json`, the map of its ids.
        size: How many tokens to keep, or
        min_count: how often a token must occur to be kept.
        protect: Strings whose tokens stay whatever their counts.
        pad_to_multiple: Round the rows of the embedding up to a multiple of this.
        threads: Threads that encode.
        **source: Settings of the source, such as `text_field`.

    Returns:
        The trimmed tokenizer. A text that used none of the dropped tokens has the same tokens as before.

    Raises:
        TokenizerError: The core does not run `base`.
        ConfigError: Fewer tokens asked for than must stay, or neither `size` nor `min_count`.
        InputError: The texts are empty.
    """
    tokenizer = base if isinstance(base, Tokenizer) else Tokenizer.load(base)
    check_base(tokenizer)
    _check_output(output)
    guarded = {token for string in protect for token in tokenizer.encode(string, special="text")}
    with open_corpus(keep_on, SourceConfig(**source)) as corpus:
        counts, documents = _count_tokens(tokenizer, corpus, threads)
        if not documents:
            raise InputError("the texts to keep tokens for hold no document; give files with text")
        made = trim_recipe(tokenizer, counts, size=size, min_count=min_count, protect=guarded)
        result = Tokenizer(made.recipe)
        if output is not None:
            proof = _prove_trim(tokenizer, result, made, corpus)
            body = _describe_trim(tokenizer, result, made, pad_to_multiple, proof)
            _write(tokenizer, result, Path(output), TRIM, body)
    return result


def _count_tokens(base: Tokenizer, corpus: Corpus, threads: int | None) -> tuple[np.ndarray[Any, Any], int]:
    counts, documents = np.zeros(base.vocab_size, np.int64), 0
    for block in corpus.blocks():
        batch = base.encode_batch(block.texts, special="text", threads=threads)
        counts += np.bincount(batch.ids, minlength=base.vocab_size)
        documents += len(batch)
    return counts, documents


def _prove_trim(base: Tokenizer, result: Tokenizer, made: Trim, corpus: Corpus) -> Certificate:
    """Encode everything again: a document that used no dropped token has the same tokens as before."""
    old_of, gone = np.array(made.old_ids), np.zeros(base.vocab_size, bool)
    gone[list(made.dropped)] = True
    documents = changed = 0
    for block in corpus.blocks():
        before = base.encode_batch(block.texts, special="text")
        after = result.encode_batch(block.texts, special="text")
        for old, new in zip(before, after, strict=True):
            documents += 1
            if gone[old].any():
                changed += 1
            elif not np.array_equal(old_of[new], old):
                raise InternalError("a document without a dropped token changed; please report this")
    return Certificate(hash_files(corpus), documents, changed, documents)


def _rows(size: int, multiple: int) -> int:
    if multiple < 1:
        raise ConfigError(f"pad_to_multiple is {multiple}; expected 1 or more, such as 64")
    return -(-size // multiple) * multiple


def _identity(tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "source": tokenizer.source,
        "fingerprint": tokenizer.fingerprint,
        "vocab_size": tokenizer.vocab_size,
    }


def _describe_extension(
    base: Tokenizer,
    result: Tokenizer,
    made: Extension,
    words: Words,
    multiple: int,
    proof: Certificate | None,
) -> dict[str, Any]:
    parts = {part for token in made.tokens for part in token.parts}
    lengths = np.diff(words.offsets)
    seen = np.bincount(words.ids, weights=np.repeat(words.counts, lengths), minlength=base.vocab_size)
    return {
        "kind": "extension",
        "base": _identity(base),
        "result": {**_identity(result), "embedding_rows": _rows(result.vocab_size, multiple)},
        "certificate": None if proof is None else proof.to_json(),
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


def _describe_trim(
    base: Tokenizer, result: Tokenizer, made: Trim, multiple: int, proof: Certificate
) -> dict[str, Any]:
    return {
        "kind": "trim",
        "base": _identity(base),
        "result": {**_identity(result), "embedding_rows": _rows(result.vocab_size, multiple)},
        "certificate": proof.to_json(),
        "old_ids": list(made.old_ids),
        "dropped": len(made.dropped),
    }


def _check_output(output: str | Path | None) -> None:
    if output is not None and Path(output).exists() and any(Path(output).iterdir()):
        raise ConfigError(f"{output} is not empty; give another --output, or remove it first")


def _write(base: Tokenizer, result: Tokenizer, output: Path, name: str, body: dict[str, Any]) -> None:
    """All files in a folder beside the output, which takes its name when it is whole."""
    staging = temporary_name(output)
    staging.mkdir(parents=True)
    try:
        save(result.recipe, staging, "hf")
        home = Path(base.source)
        home = home if home.is_dir() else home.parent
        for side in _SIDE_FILES:
            if (home / side).is_file() and not (name == TRIM and side == "tokenizer_config.json"):
                shutil.copyfile(home / side, staging / side)
        write_map(staging / name, body)
        for file in sorted(staging.iterdir()):
            sync(file)
        if output.exists():
            output.rmdir()
        staging.replace(output)
        sync(output.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    logger.info("Wrote %s", output)
