"""Find the embedding rows of a model that training never changed, to list them and to leave them out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.errors import InputError
from tokenmill.vocab.tensors import TensorFile, find_files

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.vocab.tensors import Tensor

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
RESERVED = re.compile(r"unused|reserved|extra_id|placeholder", re.IGNORECASE)
BLOCK_ROWS = 2048
# A row counts as untrained within this multiple of the distance that known ones have from their centre...
NEAR = 1.25
# ...and only if a typical row is at least this much farther away: otherwise the two cannot be distinguished.
APART = 2.0


@dataclass(frozen=True)
class Untrained:
    """The rows that lie near the known untrained ones."""

    tensor: str
    rows: int
    reference: int
    ids: frozenset[int]

    def describe(self, tokenizer: Tokenizer) -> dict[str, Any]:
        """Return plain data; a row without a token has the text None."""
        tokens = {id_: tokenizer.engine.token_bytes(id_) for id_ in sorted(self.ids)}
        shown = [
            {"id": id_, "token": None if token is None else token.decode(errors="replace")}
            for id_, token in tokens.items()
        ]
        return {"tensor": self.tensor, "rows": self.rows, "reference": self.reference, "tokens": shown}


def find_untrained(model: Path, tokenizer: Tokenizer) -> Untrained:
    """Return the untrained rows of the first embedding of a model. Raise `InputError` if it has none."""
    for path in find_files(model)[0]:
        file = TensorFile(path)
        for name in EMBEDDINGS:
            if name in file.tensors:
                return measure_rows(file, file.tensors[name], tokenizer, tokenizer.vocab_size)
    raise InputError(f"{model} has no tensor with a name that embeddings usually have")


def measure_rows(file: TensorFile, tensor: Tensor, tokenizer: Tokenizer | None, size: int) -> Untrained:
    """Compare every row with the centre of rows that no text can train, reading the table in parts.

    Those are the rows after the `size` of the vocabulary and, if the tokenizer is known, the rows of ids
    without a token and of reserved tokens.
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
        return Untrained(tensor.name, rows, 0, frozenset())
    centre = np.mean([file.read_rows(tensor, id_, 1)[0] for id_ in known], axis=0, dtype=np.float64)
    distances = np.concatenate(
        [
            np.linalg.norm(file.read_rows(tensor, at, min(BLOCK_ROWS, rows - at)) - centre, axis=1)
            for at in range(0, rows, BLOCK_ROWS)
        ]
    )
    limit = NEAR * float(np.quantile(distances[known], 0.95))
    others: NDArray[np.float64] = np.delete(distances, known)
    clear = not len(others) or float(np.median(others)) > APART * limit
    near = np.flatnonzero(distances <= limit).tolist() if clear else []
    return Untrained(tensor.name, rows, len(known), frozenset(near))
