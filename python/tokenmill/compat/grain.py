"""A source for Grain and MaxText: `grain.MapDataset.source(TokenmillSource("out", 2048)).batch(8)`."""

from __future__ import annotations

from os import PathLike
from typing import Any

from tokenmill.datasets.dataset import open_dataset


class TokenmillSource:
    """Rows with a length and random access: `inputs`, and `targets` shifted by one token."""

    def __init__(self, path: str | PathLike[str], context_length: int) -> None:
        self._rows = open_dataset(path).rows(context_length + 1, overlap=1)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> dict[str, Any]:
        row = self._rows[int(index)]
        return {"inputs": row[:-1], "targets": row[1:]}

    def __repr__(self) -> str:
        return f"TokenmillSource({len(self)} rows, {self._rows.identity()})"
