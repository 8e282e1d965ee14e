"""`document_ids`: the document's number in the dataset; -1 on padding.

A file has that number less the number of its shard's first document: shards are made without knowing of each
other. Readers here add it again (the documents of all earlier shards, by the manifest).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.datasets.packing.column import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.datasets.packing.column import Cover


def _make(cover: Cover, dtype: str) -> NDArray[Any]:
    return cover.spread(cover.documents, -1, dtype)


COLUMN = Column("document_ids", stored="int32", read="int64", make=_make)
