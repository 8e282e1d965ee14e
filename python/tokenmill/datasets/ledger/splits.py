"""Training and validation: which of the two a document belongs to, by its own content and nothing else.

So it stays where it is whatever the order of the inputs, the units, the threads, or what is added later, and
all copies of a text are on one side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tokenmill import _core
from tokenmill.base.texts import Texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

VALIDATION: Final = "validation"
TRAINING: Final = "training"
_HASHES = 1 << 64


def other_part(part: str) -> str:
    """The other of the two."""
    return TRAINING if part == VALIDATION else VALIDATION


@dataclass(frozen=True, slots=True)
class Split:
    """One side of a split: `part` of the two, with `share` of all documents in validation."""

    part: Literal["training", "validation"]
    share: float
    by_id: bool = False

    @property
    def other(self) -> str:
        """The other side, which is the reason why documents are left out of this one."""
        return other_part(self.part)

    def find_left_out(self, texts: Texts, ids: Any | None) -> NDArray[np.bool_]:
        """Which documents belong to the other side."""
        chosen = self._choose(texts)
        if self.by_id and ids is not None:
            # A record without an id goes by its text.
            named = np.asarray(ids.is_valid())
            chosen = np.where(named, self._choose(Texts.from_arrow(ids.fill_null(""))), chosen)
        return chosen if self.part == TRAINING else ~chosen

    def _choose(self, texts: Texts) -> NDArray[np.bool_]:
        """Which texts are for validation: the upper half of the hash is a number that is evenly spread."""
        hashes = _core.hash_texts(texts.data, np.ascontiguousarray(texts.offsets)).reshape(-1, 2)
        chosen: NDArray[np.bool_] = hashes[:, 1] < np.uint64(min(_HASHES - 1, int(self.share * _HASHES)))
        return chosen
