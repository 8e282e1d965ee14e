"""Data model of sources: inputs, ranges, blocks of documents, rejected records and input errors."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from tokenmill.base.texts import Texts
from tokenmill.errors import InputError
from tokenmill.sources.stores import is_remote

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from tokenmill.sources.where import Column

# The format of data in memory that is attached as an input.
MEMORY = "memory"
RangeKind = Literal["file", "bytes", "groups", "batches", "rows"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input as it was found.

    `identity` changes with the file: size and mtime locally, size and etag (or another version) remotely.
    """

    url: str
    size: int
    identity: str
    format: str
    compression: str | None = None
    split: str | None = None
    txt_mode: Literal["file", "line", "separator"] | None = None
    separator: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        """True if `url` is a path of this machine."""
        return not is_remote(self.url) and self.format != MEMORY


@dataclass(frozen=True, slots=True)
class Range:
    """A part of an input: bytes, row groups, record batches or rows `[start, stop)`, or all of it.

    The cut depends on the input and on `unit_bytes` alone. `size` is the approximate number of bytes.
    """

    kind: RangeKind
    start: int
    stop: int
    size: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.start}-{self.stop}"


def cut_equally(kind: Literal["bytes", "rows"], length: int, size: int, unit_bytes: int) -> list[Range]:
    """Return ranges of equal length and about `unit_bytes`, without a small remainder."""
    count = max(min(-(-size // unit_bytes), length), 1)
    edges = [length * at // count for at in range(count + 1)]
    return [Range(kind, start, stop, size // count) for start, stop in pairwise(edges)]


@dataclass(frozen=True, slots=True)
class Reject:
    """A record, or the rest of a file, that was skipped: the reason, `file:line:byte` and a sample."""

    reason: str
    place: str
    sample: str


@dataclass(frozen=True, slots=True)
class Block:
    """Some documents of a range, in file order.

    `rows` are record numbers within the range, from 0, counted over good, blank and rejected records alike.
    `rows_read` is the number of records in this block. `refused` and `replaced` count by reason; `rejects`
    has the first of each block only. With `goes_on`, the text of this block continues in the next one.
    """

    texts: Texts = field(default_factory=Texts)
    rows: memoryview | NDArray[np.int64] = field(default_factory=lambda: memoryview(array("q")))
    ids: pa.LargeStringArray | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    bytes_read: int = 0
    rows_read: int = 0
    rejects: tuple[Reject, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    replaced: Mapping[str, int] = field(default_factory=dict)
    goes_on: bool = False

    def __len__(self) -> int:
        return len(self.rows)


WORDS = {
    "invalid_utf8": "bytes that are not UTF-8",
    "lone_surrogate": "a lone surrogate, which is not a character",
    "broken_json": "broken JSON",
    "not_an_object": "a record that is not an object",
    "missing_field": "a record without the text field",
    "not_a_string": "a text field that is not a string",
    "too_deep": "JSON nested more than 990 levels deep",
    "over_long": "a record longer than `max_record_bytes`, which may be raised",
    "bad_messages": "a record whose messages cannot be read",
    "bad_role": "a message whose role is not a word",
    "bad_content": "a message whose content is neither text nor parts of text",
    "bad_flag": "a flag of a message that cannot be read",
    "bad_ids": "ids that cannot be read",
    "bad_mask": "a mask that does not fit its ids",
    "template_refuses": "a conversation that its chat template refuses",
    "role_left_out": "a message that its chat template omits",
    "content_left_out": "an answer of which its chat template writes nothing",
    "special_string": "the string of a special token where it is not text",
    "unproved_mask": "a conversation whose loss mask cannot be proved",
    "field_count": "a row with more or fewer fields than the header",
    "broken_quote": "a quoted field that does not end",
    "truncated": "a file that ends too early",
    "damaged": "a file that cannot be decoded further",
    "unreadable": "a file that cannot be read",
    "wrong_extension": "a file whose content does not match its name",
}
# Reasons whose sample is an explanation and not a part of the record.
_EXPLAINED = {
    *("bad_messages", "bad_role", "bad_content", "template_refuses", "role_left_out"),
    *("special_string", "unproved_mask", "bad_flag", "content_left_out", "bad_ids", "bad_mask"),
}


class FileFaultError(InputError):
    """A fault of a whole file, found while reading it. Documents read before it remain valid."""

    def __init__(self, reason: str, place: str, detail: str) -> None:
        super().__init__(
            f"{place}: {WORDS[reason]}: {detail}. Replace the file, or set `on_error` to 'skip' to keep "
            "what could be read and count the rest"
        )
        self.reject = Reject(reason, place, detail)


class ChangedInputError(InputError):
    """An input is no longer the file that was planned. Raised regardless of `on_error`."""


def explain_refusal(reject: Reject) -> InputError:
    """Return the error for a bad record when `on_error` is `fail`."""
    words = WORDS.get(reject.reason, reject.reason)
    sample = reject.sample if reject.reason in _EXPLAINED else repr(reject.sample)
    return InputError(
        f"{reject.place}: {words}: {sample}. Fix the record, or set `on_error` to 'skip' (leave such records "
        "out, counted) or 'replace' (also put U+FFFD where text is not Unicode)"
    )
