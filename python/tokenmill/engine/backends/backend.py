"""The seam between `Tokenizer` and whatever turns text into ids: the native core, HF, or Python processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.uint16] | NDArray[np.uint32]

StrategyName = Literal["native", "fast", "slow"]
Special = Literal["parse", "text", "forbid"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """Which engine encodes, and why: `Strategy("fast", "the model is WordPiece")`."""

    name: StrategyName
    reason: str

    def __str__(self) -> str:
        """`native (byte-level BPE)`, as the command prints it."""
        return f"{self.name} ({self.reason})"


class Backend(Protocol):
    """What an engine must do. It is immutable, picklable, and safe to call from threads.

    `docs` is a list of str or bytes, or a pyarrow string or binary array (chunked or not). The ids of all
    documents come back in one flat array, with `len(docs) + 1` int64 offsets.
    """

    # The largest id plus one, and the name of the scanner (native) or of the model's type.
    id_limit: int
    family: str

    def encode(self, text: str | bytes, special: Special, *, template: bool) -> list[int]:
        """The ids of one text; `template` adds what the post-processor adds."""

    def encode_batch(
        self, docs: Any, special: Special, *, template: bool, threads: int
    ) -> tuple[Ids, NDArray[np.int64]]:
        """The ids of many texts, flat, with offsets."""

    def offsets(
        self, text: str, special: Special, *, template: bool
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of one text and, for each, the `(start, end)` characters of the text that it covers."""

    def decode(self, ids: Sequence[int] | NDArray[Any], *, skip_special: bool) -> bytes:
        """The bytes that the ids stand for."""

    def count_batch(self, docs: Any, special: Special, *, template: bool, threads: int) -> NDArray[np.int64]:
        """How many ids each text has."""

    def token_bytes(self, token_id: int) -> bytes | None:
        """What one id spells, or None for an id that nothing has."""

    def id_of(self, token: bytes) -> int | None:
        """The id of a token's bytes, or None."""
