"""What a trace tells: rows of a run, and in each the stretches of documents."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Stretch:
    """Tokens `start..start + length` of a document, at `place` in a row."""

    document: int
    place: int
    length: int
    start: int


@dataclass(frozen=True, slots=True)
class TracedRow:
    """One row of one step: who got it, where it comes from, and the documents in it.

    >>> import tokenmill
    >>> dataset = tokenmill.prepare(
    ...     dataset=["one text", "another text"], tokenizer=tokenizer, output="out", verbose_level="ERROR"
    ... )
    >>> feed = dataset.rows(context_length=8).batches(2)
    >>> [(row.row, [part.document for part in row.stretches]) for row in feed.trace(0)]
    [(0, [0, 1]), (1, [1])]
    """

    step: int
    rank: int
    place: int
    """Its place in the batch, from 0."""
    epoch: int
    position: int
    """Its place in the epoch."""
    source: int
    """The number of its source in a mixture; 0 for one dataset."""
    row: int
    """Its number in the dataset."""
    stretches: tuple[Stretch, ...]

    def to_json(self) -> dict[str, Any]:
        """A plain object."""
        found = asdict(self)
        stretches = found.pop("stretches")
        return found | {"documents": list(stretches)}
