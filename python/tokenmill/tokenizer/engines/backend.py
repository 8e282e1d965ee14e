"""`Engine`: what turns text into ids behind a `Tokenizer`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.base.texts import Texts

    Docs = list[str | bytes]
    # Flat uint16 or uint32 ids, and offsets.
    FlatIds = tuple[NDArray[Any], NDArray[np.int64]]
    # Ids, and the `(start, end)` characters of each.
    Spans = tuple[list[int], list[tuple[int, int]]]

StrategyName = Literal["native", "huggingface", "python"]
# "fast" and "slow" are the names that transformers uses for "huggingface" and "python".
StrategyOption = Literal["auto", "native", "huggingface", "python", "fast", "slow"]
Special = Literal["parse", "text", "forbid"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """Which engine encodes, and why: `Strategy("huggingface", "the model is WordPiece")`."""

    name: StrategyName
    reason: str

    def __str__(self) -> str:
        """`native (byte-level BPE)`, as the command prints it."""
        return f"{self.name} ({self.reason})"


class Engine(ABC):
    """What turns text into ids. It is immutable, picklable, and safe to call from threads.

    `docs` is a list of str or bytes, or a pyarrow string or binary array (chunked or not). The ids of all
    documents come back in one flat array, with `len(docs) + 1` int64 offsets. What is not abstract here is
    right for an engine of another library, which neither frames nor cuts, and is its own reference.
    """

    # The largest id plus one, and the name of the scanner (native) or of the model's type.
    id_limit: int
    family: str
    # Whether `encode_framed` can put the ids of BOS and EOS around documents.
    frames = False
    # Whether `encode_part` can continue where a text was cut.
    takes_parts = False
    # Whether it reproduces another library, with which a long job compares it first.
    needs_parity_check = False
    # Whether worker processes do its work, whatever `threads` says.
    in_processes = False

    @abstractmethod
    def encode(self, text: str | bytes, special: Special, *, template: bool) -> list[int]:
        """Return the ids of one text; `template` adds what the post-processor adds."""

    @abstractmethod
    def encode_batch(self, docs: Any, special: Special, *, template: bool, threads: int) -> FlatIds:
        """Return the ids of many texts, flat, with offsets."""

    @abstractmethod
    def offsets(self, text: str, special: Special, *, template: bool) -> Spans:
        """Return the ids of one text and the `(start, end)` characters that each covers."""

    @abstractmethod
    def decode(self, ids: Sequence[int] | NDArray[Any], *, skip_special: bool) -> bytes:
        """Return the bytes that the ids stand for."""

    @abstractmethod
    def token_bytes(self, token_id: int) -> bytes | None:
        """Return what one id spells, or None for an id that is not in the vocabulary."""

    @abstractmethod
    def id_of(self, token: bytes) -> int | None:
        """Return the id of a token's bytes, or None."""

    def encode_lists(self, docs: Docs, special: Special, *, template: bool, threads: int) -> list[list[int]]:
        """Return the ids of many texts, one list for each."""
        from tokenmill._core import ids_to_lists

        return ids_to_lists(*self.encode_batch(docs, special, template=template, threads=threads))

    def encode_framed(
        self, texts: Texts, frame: tuple[int | None, int | None], special: Special, *, threads: int
    ) -> tuple[memoryview, memoryview]:
        """Return the ids of flat texts, each between the ids of `frame`, and offsets; needs `frames`."""
        raise NotImplementedError

    def encode_stream(self, texts: Iterable[str], special: Special) -> Iterator[int]:
        """Yield the ids of the joined parts."""
        yield from self.encode("".join(texts), special, template=False)

    def encode_part(self, data: memoryview, special: Special, *, continued: bool) -> NDArray[Any]:
        """Return the ids of a part of a UTF-8 text, `continued` after a cut; check `takes_parts` first."""
        raise NotImplementedError

    def piece_ends(self, text: str, special: Special) -> list[int] | None:  # noqa: ARG002 - unknown here
        """Where pieces end, in bytes of the normalized text; None where the engine does not say."""
        return None

    def decode_text(self, ids: Sequence[int] | NDArray[Any], errors: str, *, skip_special: bool) -> str:
        """Return the text that the ids stand for, as the tokenizer's decoder has it."""
        return self.decode(ids, skip_special=skip_special).decode("utf-8", errors)

    def decode_texts(self, ids: Any, offsets: Any, errors: str) -> list[str] | None:  # noqa: ARG002 - one by one
        """Return one text for each document of a flat array; None where each must be decoded by itself."""
        return None

    def count_batch(self, docs: Any, special: Special, *, template: bool, threads: int) -> NDArray[np.int64]:
        """Return how many ids each text has."""
        import numpy as np

        return np.diff(self.encode_batch(docs, special, template=template, threads=threads)[1])
