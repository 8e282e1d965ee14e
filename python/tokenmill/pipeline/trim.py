"""`tokenmill.trim`: a vocabulary without the tokens that a corpus does not need, with the map of its ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.errors import ConfigError, InputError, InternalError
from tokenmill.pipeline.vocabulary_output import check_output, check_rows, identify, write_vocabulary
from tokenmill.settings.schema import SourceConfig
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.counting import open_corpus
from tokenmill.vocab.kept import Certificate, hash_files
from tokenmill.vocab.maps import TRIM
from tokenmill.vocab.trim import trim_recipe
from tokenmill.vocab.words import check_base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tokenmill.training.counting import Corpus
    from tokenmill.vocab.trim import Trim


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
    tokenizer = base if isinstance(base, Tokenizer) else Tokenizer.load(base)
    check_base(tokenizer)
    check_output(output)
    check_rows(pad_to_multiple)
    if output is not None and isinstance(keep_on, Iterator):
        raise ConfigError(
            "keep_on is an iterator, which can be read once, and the certificate reads the texts again; give "
            "files, Arrow data or a dataset"
        )
    guarded = {token for string in protect for token in tokenizer.encode(string, special="text")}
    with open_corpus(keep_on, SourceConfig(**source)) as corpus:
        counts, documents = _count_tokens(tokenizer, corpus, threads)
        if not documents:
            raise InputError("the texts to keep tokens for hold no document; give files with text")
        made = trim_recipe(tokenizer, counts, size=size, min_count=min_count, protect=guarded)
        result = Tokenizer(made.recipe)
        if output is not None:
            proof = _prove_trim(tokenizer, result, made, corpus)
            body = _describe(tokenizer, result, made, pad_to_multiple, proof)
            write_vocabulary(tokenizer, result, Path(output), TRIM, body, made.new_ids)
    return result


def _count_tokens(base: Tokenizer, corpus: Corpus, threads: int | None) -> tuple[NDArray[np.int64], int]:
    counts, documents = np.zeros(base.vocab_size, np.int64), 0
    for block in corpus.read_blocks():
        batch = base.encode_batch(block.texts, special="text", threads=threads)
        counts += np.bincount(batch.ids, minlength=base.vocab_size)
        documents += len(batch)
    return counts, documents


def _prove_trim(base: Tokenizer, result: Tokenizer, made: Trim, corpus: Corpus) -> Certificate:
    """Encode everything again: a document that used no dropped token has the same tokens as before."""
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
    return Certificate(hash_files(corpus), documents, changed, documents)


def _describe(
    base: Tokenizer, result: Tokenizer, made: Trim, multiple: int, proof: Certificate
) -> dict[str, Any]:
    return {
        "kind": "trim",
        "base": identify(base),
        "result": identify(result, multiple),
        "certificate": proof.to_json(),
        "old_ids": list(made.old_ids),
        "dropped": len(made.dropped),
    }
