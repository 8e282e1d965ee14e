"""`tokenmill.extend`: add tokens after all old ones, and write the map and the certificate."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ConfigError, InputError, InternalError
from tokenmill.settings.options import TrainOptions
from tokenmill.settings.resolve import from_options
from tokenmill.sources.raw import RawFile
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.counting import Corpus, open_corpus
from tokenmill.vocab.extension import (
    ExtendOptions,
    Extension,
    NewToken,
    add_characters,
    check_required,
    count_characters,
    extend_recipe,
)
from tokenmill.vocab.maps import load_base, write_vocabulary
from tokenmill.vocab.words import Words, build_piece_tokenizer, check_text_kept, count_pieces, to_batches

# If kept documents would change, exclude those merges and repeat the training. One round is usual.
_ROUNDS = 8
_NOT_TAKEN = ("pattern", "special_tokens")


def extend(
    base: str | Path | Tokenizer,
    inputs: Any = None,
    *,
    add: int,
    only_script: str | Sequence[str] = (),
    keep_ids: str | Path | Sequence[str | Path] = (),
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
    if given := [name for name in _NOT_TAKEN if name in options]:
        raise ConfigError(f"{', '.join(given)}: not a setting of an extension, which splits as its base does")
    options.setdefault("min_frequency", 2)
    config = from_options(job="train", **options).config
    tokenizer = load_base(base, config.output.path, pad_to_multiple)
    check_text_kept(tokenizer)
    wanted = ExtendOptions(add, config.training, tuple(only_script), tuple(require), reuse_reserved)
    with ExitStack() as stack:
        corpus = stack.enter_context(open_corpus(inputs, config.source))
        files = keep_ids[0] if len(keep_ids) == 1 else list(keep_ids)
        kept = stack.enter_context(open_corpus(files, config.source)) if keep_ids else None
        counted = count_pieces(tokenizer, corpus, config.execution, config.source.counts)
        if not counted.pieces:
            raise InputError("the inputs contain no text; give files with documents, or counts")
        seen = None if kept is None else count_pieces(tokenizer, kept, config.execution)
        if seen is not None and not seen.pieces:  # the number of documents is not always counted
            raise InputError("the files of keep_ids contain no text; give files with documents")
        grown, characters = tokenizer, tuple[NewToken, ...]()
        if tokenizer.recipe.model is not None and tokenizer.recipe.model.kind == "chars":
            others = {} if seen is None else count_characters(to_batches(seen))
            grown, characters = add_characters(
                tokenizer, count_characters(to_batches(counted)), wanted, others
            )
        pieces = build_piece_tokenizer(grown)
        words, proof = Words.encode(pieces, to_batches(counted)), None
        if kept is None or seen is None:
            made = extend_recipe(grown, words, wanted, np.empty(0, np.uint32), characters)
        else:
            apart = Words.encode(pieces, to_batches(seen)).list_pairs()
            check_required(grown, require, apart)
            made, proof = _prove(grown, words, wanted, apart, characters, kept)
    result = Tokenizer(made.recipe)
    if config.output.path is None:
        return result
    tokens = [
        {
            "id": token.id,
            "text": token.bytes.decode("utf-8", "replace"),
            "bytes": token.bytes.hex(),
            "parts": list(token.parts),
            "count": token.count,
        }
        for token in made.tokens
    ]
    body = {"certificate": proof, "tokens": tokens}
    return write_vocabulary(tokenizer, result, Path(config.output.path), pad_to_multiple, body)


def _prove(
    base: Tokenizer,
    words: Words,
    options: ExtendOptions,
    apart: NDArray[np.uint32],
    characters: Sequence[NewToken],
    kept: Corpus,
) -> tuple[Extension, dict[str, Any]]:
    """Return an extension that changes no kept document, and its certificate."""
    for _ in range(_ROUNDS):
        made = extend_recipe(base, words, options, apart, characters)
        documents, used = _find_used(Tokenizer(made.recipe), made.tokens, kept)
        if not used:
            return made, {"files": _hash_files(kept), "documents": documents, "changed": 0}
        assert made.recipe.model is not None
        spelled = made.recipe.model.tokens
        old = [
            pair
            for pair in made.merges
            if max(pair) < base.vocab_size and (spelled[pair[0]] or b"") + (spelled[pair[1]] or b"") in used
        ]
        apart = np.concatenate([apart, np.array(old, np.uint32).reshape(-1, 2)])
    raise InternalError(
        f"kept documents still change after {_ROUNDS} rounds; please report this with the base"
    )


def _find_used(extended: Tokenizer, new: Sequence[NewToken], corpus: Corpus) -> tuple[int, set[bytes]]:
    """Encode every document. Return the number of documents, and the new tokens that they use."""
    is_used, documents = np.zeros(extended.vocab_size, bool), 0
    for block in corpus.read_blocks():
        batch = extended.encode_batch(block.texts, special="text")
        is_used[batch.ids] = True
        documents += len(batch)
    return documents, {token.bytes for token in new if is_used[token.id]}


def _hash_files(corpus: Corpus) -> list[dict[str, Any]]:
    """Return the hashes of the files of a corpus; data in memory has only a name."""
    if corpus.in_memory:
        return corpus.identify()
    found = []
    for file in corpus.files:
        with RawFile(file) as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
        found.append({"path": file.url, "bytes": file.size, "sha256": digest})
    return found
