"""Pack encoded documents and write them to the files of one shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.learned import is_learned, strip_marks
from tokenmill.datasets.columns import Cover, store_columns
from tokenmill.datasets.formats.files import Items, ShardShape
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.receipt import Account
from tokenmill.datasets.packing import Packer, RowShape, make_packer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tokenmill.datasets.ledger.plan import Target
    from tokenmill.datasets.ledger.receipt import FileEntry
    from tokenmill.datasets.packing import Packed
    from tokenmill.pipeline.encode import Encoded


class ShardBuilder:
    """Packs and writes; `account` counts what it wrote, repeated, padded and dropped."""

    def __init__(
        self,
        target: Target,
        root: Path,
        name: str,
        *,
        provenance: bool,
        most_documents: int | None = None,
        marked: bool = False,
    ) -> None:
        """Open the writers of the shard; `marked` ids carry their loss mask in their highest bit."""
        self.account = Account()
        self.documents = 0
        self.rows = 0
        packing = target.packing
        length = packing.context_length if packing.layout == "rows" else None
        shape = ShardShape(root, name, target.dtype, length, packing.columns)
        self._length = length
        self._columns = packing.columns
        self._marked = marked
        self._packer: Packer | None = None
        if length is not None:
            rows = RowShape(
                length,
                packing.pad_id or 0,
                packing.columns,
                packing.overlap,
                drop_tail=packing.tail == "drop",
                most_documents=most_documents,
                marked=marked,
            )
            self._packer = make_packer(packing.mode, rows)
        self._writer = find_format(target.format).writer(shape)
        self._provenance = None
        if provenance:
            # Here, since it imports Arrow.
            from tokenmill.datasets.ledger.provenance import ProvenanceWriter

            self._provenance = ProvenanceWriter(shape)

    def add(self, encoded: Encoded) -> None:
        """Write documents, or pack them into rows."""
        ids, offsets, first = np.asarray(encoded.ids), np.asarray(encoded.offsets), self.documents
        if self._provenance is not None:
            self._provenance.write(encoded.origins, np.diff(offsets))
        if not encoded.documents:
            return
        self.documents += encoded.documents
        self.account.documents_written += encoded.documents
        if self._packer is None:
            self.account.tokens_written += len(ids)
            self._writer.write(self._make_items(ids, offsets, first))
        else:
            self._write_rows(self._packer.push(ids, offsets))

    def _make_items(self, ids: Any, offsets: Any, first: int) -> Items:
        """Return whole documents with their columns."""
        lengths = np.diff(offsets)
        taught = None
        if self._marked:
            taught, ids = is_learned(ids), strip_marks(ids)
            self.account.learned_written += int(taught.sum())
        cover = Cover(ids, np.arange(first, first + len(lengths)), offsets[:-1], lengths, taught)
        return Items(ids, offsets, store_columns(self._columns, cover))

    def _write_rows(self, finished: Iterable[Packed]) -> None:
        for packed in finished:
            self.account.add(packed.account)
            self.rows += packed.rows
            if packed.rows:
                offsets = np.arange(packed.rows + 1, dtype=np.int64) * (self._length or 1)
                self._writer.write(Items(packed.ids, offsets, packed.columns, packed.segments.to_table()))

    def close(self) -> list[FileEntry]:
        """Write the rest and publish every file of the shard."""
        if self._packer is not None:
            self._write_rows(self._packer.finish())
        files = self._writer.close()
        return files + (self._provenance.close() if self._provenance is not None else [])

    def discard(self) -> None:
        """Remove what was not published."""
        self._writer.discard()
        if self._provenance is not None:
            self._provenance.discard()
