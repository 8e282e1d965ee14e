"""From tokens by rank (tiktoken, SentencePiece) to the merge list that other formats want.

One merge per token is not exact: a token can come into being by different splits in different contexts
(678 tokens of Llama-3). Every split of every token, in rank order, is: among equal ranks the leftmost pair
is taken first, as tiktoken does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.engine.recipe import Model


def merges_of(model: Model) -> list[tuple[int, int]]:
    """The merges in rank order, written out where the model has only ranks."""
    if model.merges is not None:
        return list(model.merges)
    return list(_all_splits(model))


def _all_splits(model: Model) -> Iterator[tuple[int, int]]:
    ids = {token: i for i, token in enumerate(model.tokens) if token is not None}
    mergeable = set(model.rank_order)
    for i in model.rank_order:
        token = model.tokens[i]
        if token is None:
            continue
        for cut in range(1, len(token)):
            left, right = ids.get(token[:cut]), ids.get(token[cut:])
            if left is None or right is None:
                continue
            if (left in mergeable or _is_atom(model, left)) and (
                right in mergeable or _is_atom(model, right)
            ):
                yield left, right


def _is_atom(model: Model, token_id: int) -> bool:
    token = model.tokens[token_id] or b""
    return len(token) == 1 or (model.kind == "chars" and len(token.decode(errors="replace")) == 1)
