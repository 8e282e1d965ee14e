"""Find the embedding rows of a model that training never changed, to list them and to leave them out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import InputError
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.tensors import Tensor, TensorFile, find_files

# What architectures call the table of ids to vectors, and the one from vectors to ids.
EMBEDDINGS = (
    "model.embed_tokens.weight",
    "model.language_model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight",
    "transformer.wte.weight",
    "wte.weight",
    "gpt_neox.embed_in.weight",
    "model.decoder.embed_tokens.weight",
    "embed_tokens.weight",
    "lm_head.weight",
    "embed_out.weight",
    "output.weight",
)
# What vocabularies call the tokens that they keep for later.
RESERVED = re.compile(r"reserved|unused|extra_id|extra_\d|placeholder|dummy", re.IGNORECASE)
BLOCK_ROWS = 2048
# A row counts as untrained within this multiple of the distance that known ones have from their centre...
NEAR = 1.25
# ...and only if a typical row is at least this much farther away: otherwise the two cannot be distinguished.
APART = 2.0


def find_untrained(model: Path, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the untrained rows of the first embedding of a model; a row without a token has the text None.

    Raise `InputError` if the model has no embedding, or one with fewer rows than the vocabulary has ids.
    """
    files = [TensorFile(path) for path in find_files(model)[0]]
    found = [file.tensors[name] for name in EMBEDDINGS for file in files if name in file.tensors]
    if not found:
        raise InputError(f"{model} has no tensor with a name that embeddings usually have")
    tensor = found[0]
    if tensor.shape[0] < tokenizer.vocab_size:
        raise InputError(
            f"{tensor.name} of {model} has {tensor.shape[0]:,} rows, and {tokenizer.source} has "
            f"{tokenizer.vocab_size:,} ids: this model has another tokenizer"
        )
    known, near = measure_rows(tensor, tokenizer, tokenizer.vocab_size)
    tokens = {id_: tokenizer.engine.token_bytes(id_) for id_ in sorted(near)}
    shown = [
        {"id": id_, "token": None if token is None else token.decode(errors="replace")}
        for id_, token in tokens.items()
    ]
    return {"tensor": tensor.name, "rows": tensor.shape[0], "reference": known, "tokens": shown}


def measure_rows(tensor: Tensor, tokenizer: Tokenizer | None, size: int) -> tuple[int, frozenset[int]]:
    """Return how many rows no text can train, and the rows near their centre; read the table in parts.

    No text trains the rows after the `size` of the vocabulary and, if the tokenizer is known, the rows of
    ids without a token and of reserved tokens.
    """
    rows, known = tensor.shape[0], list(range(size, tensor.shape[0]))
    if tokenizer is not None:
        added = {id_: text for text, id_ in tokenizer.added_tokens.items()}
        known += [
            id_
            for id_ in range(min(size, rows))
            if RESERVED.search(added.get(id_, "")) or tokenizer.engine.token_bytes(id_) is None
        ]
    if not known:
        return 0, frozenset()
    centre = np.mean([tensor.read_rows(id_, 1)[0] for id_ in known], axis=0, dtype=np.float64)
    distances = np.concatenate(
        [
            np.linalg.norm(tensor.read_rows(at, min(BLOCK_ROWS, rows - at)) - centre, axis=1)
            for at in range(0, rows, BLOCK_ROWS)
        ]
    )
    limit = NEAR * float(np.quantile(distances[known], 0.95))
    others: NDArray[np.float64] = np.delete(distances, known)
    clear = not len(others) or float(np.median(others)) > APART * limit
    near = np.flatnonzero(distances <= limit).tolist() if clear else []
    return len(known), frozenset(near)
