"""From tokens by rank (tiktoken, SentencePiece) to the merge list that other formats want."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenmill.engine.recipe import Model


def merges_of(model: Model) -> list[tuple[int, int]]:
    """The merges in rank order; where the model has only ranks, every split of every token."""
    merges = model.merges
    if merges is None:
        merges = model.tokens.splits(model.rank_order, model.kind == "chars")
    return merges[:]
