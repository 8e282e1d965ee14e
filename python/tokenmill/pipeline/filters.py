"""Drop documents: text filters before encoding, token filters after it.

A document is counted under the first reason that applies, in the order blank, too few characters, too many,
predicate, function, duplicate, the other side of a split, too few tokens, too many.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tokenmill.datasets.documents import find_blank, has_blank

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.receipt import Account
    from tokenmill.settings.schema import FilterConfig
    from tokenmill.sources.model import Block
    from tokenmill.sources.where import Predicate

    Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class TextFilters:
    """The filters that need only the text and the columns of a record."""

    config: FilterConfig
    predicate: Predicate | None = None
    function: Callable[[str], bool] | None = None

    @classmethod
    def of(cls, config: FilterConfig, function: Callable[[str], bool] | None = None) -> TextFilters:
        """Return the filters of a config, with the caller's own function as the last."""
        if not config.where:
            return cls(config, None, function)
        from tokenmill.sources.where import Predicate

        return cls(config, Predicate(config.where), function)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that a source must provide."""
        return self.predicate.columns if self.predicate else ()

    def keep(self, block: Block) -> tuple[Mask | None, Counter[str]]:
        """Return the mask of documents to keep (None for all) and the dropped ones by reason."""
        config, texts = self.config, block.texts
        some_blank = config.drop_blank and has_blank(texts.offsets, texts.data)
        others = (config.min_chars, config.max_chars, self.predicate, self.function)
        if not some_blank and all(other is None for other in others):
            return None, Counter()
        sieve = _Sieve(len(texts))
        if some_blank:
            sieve.drop("blank", find_blank(texts.offsets, texts.data))
        if config.min_chars is not None or config.max_chars is not None:
            import pyarrow.compute as pc

            characters = np.asarray(pc.utf8_length(texts.to_arrow()))
            sieve.drop("min_chars", characters < (config.min_chars or 0))
            if config.max_chars is not None:
                sieve.drop("max_chars", characters > config.max_chars)
        if self.predicate is not None and len(texts):
            sieve.drop("where", ~self.predicate.mask(block.columns, len(texts)))
        if self.function is not None:
            # The only loop over documents here, since the function is the caller's own.
            refused = [kept and not self.function(texts[at]) for at, kept in enumerate(sieve.kept)]
            sieve.drop("function", np.array(refused, dtype=bool))
        return sieve.kept, sieve.reasons


def filter_tokens(
    config: FilterConfig,
    lengths: NDArray[np.int64],
    account: Account,
    trained: NDArray[np.int64] | None = None,
) -> Mask:
    """Return which documents pass the limits on tokens; count the others, their tokens and trained tokens."""
    sieve = _Sieve(len(lengths))
    limits = (
        ("min_tokens", lengths < (config.min_tokens or 0)),
        ("max_tokens", lengths > config.max_tokens if config.max_tokens is not None else None),
    )
    for reason, out in limits:
        if out is not None and (fresh := sieve.drop(reason, out)).any():
            account.tokens_dropped[reason] += int(lengths[fresh].sum())
            if trained is not None:
                account.learned_dropped[reason] += int(trained[fresh].sum())
    account.documents_dropped.update(sieve.reasons)
    return sieve.kept


class _Sieve:
    """A mask of kept documents, and the first reason of each that is dropped."""

    def __init__(self, count: int) -> None:
        self.kept: Mask = np.ones(count, dtype=bool)
        self.reasons: Counter[str] = Counter()

    def drop(self, reason: str, out: Mask) -> Mask:
        fresh = self.kept & out
        count = int(fresh.sum())
        if count:
            self.reasons[reason] += count
            self.kept &= ~out
        return fresh
