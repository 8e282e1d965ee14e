"""Pack documents into rows through a view, for the formats that store rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tokenmill import _core
from tokenmill.base.texts import is_learned, strip_marks
from tokenmill.datasets.documents import Cover, Ids, Int64s, make_offsets, store_columns
from tokenmill.datasets.formats.files import Items
from tokenmill.datasets.ledger.receipt import Account
from tokenmill.datasets.views import Laid, Layer, View, find_places


class RowPacker:
    """Pack blocks of documents into rows. The rows do not depend on the sizes of the blocks."""

    def __init__(self, view: View, pad_id: int, columns: tuple[str, ...], *, marked: bool) -> None:
        """Pack by a view. `marked` ids carry the loss mask in their highest bit (`base.texts`)."""
        self.view = view
        self.rows = 0
        self.account = Account()
        self._pad_id = pad_id
        self._columns = columns
        self._marked = marked
        self._layer = Layer(view, self._count_trained if marked else None)
        self._learned = 0  # trained tokens in all documents
        self._held: list[Ids] = []
        self._lengths: list[Int64s] = []
        self._first = 0  # the number of the first buffered document

    def push(self, ids: Ids, offsets: Int64s) -> Iterator[Items]:
        """Add documents and yield the rows that are finished."""
        lengths = np.diff(offsets)
        self._held.append(ids[offsets[0] : offsets[-1]])
        self._lengths.append(lengths)
        self.account.documents_written += len(lengths)
        self._learned += int(is_learned(self._held[-1]).sum()) if self._marked else 0
        yield from self._fill(self._layer.push(lengths))

    def finish(self) -> Iterator[Items]:
        """Yield the remaining rows, and count the dropped tokens."""
        yield from self._fill(self._layer.finish())
        account, layer = self.account, self._layer
        account.tokens_dropped.update(layer.dropped)
        account.documents_dropped.update(layer.documents_dropped)
        account.documents_written -= layer.documents_dropped.total()
        if left := self._learned - account.learned_written - account.learned_dropped.total():
            account.learned_dropped["cropped" if self.view.bos_aligned else "tail"] += left

    def _join(self) -> tuple[Ids, Int64s]:
        """Return the flat ids and the offsets of the buffered documents."""
        self._held, self._lengths = [np.concatenate(self._held)], [np.concatenate(self._lengths)]
        return self._held[0], make_offsets(self._lengths[0])

    def _count_trained(self, documents: Int64s, starts: Int64s, ends: Int64s) -> Int64s:
        """Count the trained tokens in the kept parts of cut documents, and the others as dropped."""
        ids, offsets = self._join()
        trained = make_offsets(is_learned(ids))
        first = documents - self._first
        kept: Int64s = trained[offsets[first] + ends] - trained[offsets[first] + starts]
        whole = trained[offsets[first + 1]] - trained[offsets[first]]
        self.account.learned_dropped["too_long"] += int(whole.sum() - kept.sum())
        return kept

    def _fill(self, finished: Iterator[Laid]) -> Iterator[Items]:
        for laid in finished:
            ids, offsets = self._join()
            yield self._make_items(laid, ids, offsets)
            # No later row contains documents before this one.
            gone = self._layer.document - self._first
            self._held, self._lengths = [ids[offsets[gone] :]], [self._lengths[0][gone:]]
            self._first += gone

    def _make_items(self, laid: Laid, ids: Ids, offsets: Int64s) -> Items:
        length, account = self.view.context_length, self.account
        rows = np.full(laid.rows * length, self._pad_id, dtype=ids.dtype)
        places = laid.row * length + find_places(laid.row, laid.length, self.view.multiple_of)
        source = offsets[laid.document - self._first] + laid.start
        _core.copy_segments(ids, source, places, laid.length, rows)
        again = rows.reshape(-1, length)[laid.repeats, : self.view.overlap]
        loss_mask = None
        covered = int(laid.length.sum())
        if self._marked:
            loss_mask, rows = is_learned(rows), strip_marks(rows)
            repeated = int(is_learned(again).sum())
            account.learned_repeated += repeated
            account.learned_written += int(loss_mask.sum()) - repeated
        account.tokens_written += covered - again.size
        account.tokens_repeated += again.size
        account.tokens_padding += len(rows) - covered
        self.rows += laid.rows
        cover = Cover(rows, laid.document, places, laid.length, loss_mask)
        bounds = np.arange(laid.rows + 1, dtype=np.int64) * length
        return Items(rows, bounds, store_columns(self._columns, cover))
