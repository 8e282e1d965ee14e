"""Read records that already hold ids: rollouts, teacher outputs, data tokenized by other tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.texts import is_learned, mark
from tokenmill.chat.encode import BLANK, ChatBatch
from tokenmill.chat.records import RecordError, find_field
from tokenmill.sources.fields import ATTENTION, LABELS, LOSS_MASKS
from tokenmill.tokenizer.tokenizer import Tokenizer

IGNORED = -100


class IdsWork(NamedTuple):
    """Reads records of ids: checks them, removes padding and sets the loss mask."""

    tokenizer: Tokenizer
    field: str

    def encode(self, records: Iterable[str | bytes], _special: str, *, drop_blank: bool) -> ChatBatch:
        """Return the ids of records with their loss masks."""
        batch = ChatBatch()
        for number, record in enumerate(records):
            try:
                ids = self.read(record)
            except RecordError as error:
                batch.errors[number] = error
                continue
            batch.add(number, ids, BLANK if drop_blank and not len(ids) else None)
            batch.roles["ids"] += int(is_learned(ids).sum())
        return batch

    def read(self, data: str | bytes) -> NDArray[np.uint32]:
        """Return the marked ids of one JSON record without padding; raises `RecordError`."""
        record = json.loads(data)
        ids, most = _read_numbers(find_field(record, self.field), self.field), self.tokenizer.vocab_size - 1
        if len(outside := np.flatnonzero((ids < 0) | (ids > most))):
            at = outside[0]
            detail = f"{self.field}[{at}] is {ids[at]}, expected an id of the vocabulary, 0 to {most}"
            raise RecordError("bad_ids", detail)
        masks = {
            name: _read_numbers(record[name], name, len(ids), is_mask=name != LABELS)
            for name in (*LOSS_MASKS, LABELS, ATTENTION)
            if record.get(name) is not None
        }
        attended = masks.pop(ATTENTION, np.ones_like(ids))
        labels = masks.pop(LABELS, ids)
        if len(other := np.flatnonzero((labels != ids) & (labels != IGNORED))):
            at = other[0]
            detail = f"labels[{at}] is {labels[at]}, expected {IGNORED} or {ids[at]}, the id at its place"
            raise RecordError("bad_mask", f"{detail} (labels are not shifted)")
        trained = np.logical_and.reduce([labels != IGNORED, *masks.values()])
        kept = np.flatnonzero(attended)
        inner = slice(kept[0], kept[-1] + 1) if len(kept) else slice(0)
        if not attended[inner].all():
            raise RecordError("bad_mask", f"{ATTENTION} has 0 between tokens, expected it for padding only")
        return mark(ids[inner], trained[inner])


def _read_numbers(
    value: Any, name: str, length: int | None = None, *, is_mask: bool = False
) -> NDArray[np.int64]:
    """Return a list of ids or labels, or a mask, as an array; raises `RecordError`."""
    kinds, expected = ((int, bool), "0 or 1") if is_mask else ((int,), "a whole number")
    reason = "bad_ids" if length is None else "bad_mask"
    if not isinstance(value, list):
        raise RecordError(reason, f"{name} is {str(value)[:40]!r}, expected a list")
    if length is not None and len(value) != length:
        raise RecordError(reason, f"{name} has {len(value)} values for {length} ids, expected one for each")
    if set(kinds).issuperset(map(type, value)) and (not is_mask or {0, 1}.issuperset(value)):
        with suppress(OverflowError):
            return np.array(value, np.int64)
    low, high = (0, 1) if is_mask else (-(1 << 63), (1 << 63) - 1)
    at = next(at for at, each in enumerate(value) if type(each) not in kinds or not low <= each <= high)
    raise RecordError(reason, f"{name}[{at}] is {str(value[at])[:40]!r}, expected {expected}")
