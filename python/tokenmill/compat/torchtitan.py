"""A source for torchtitan: documents with a length and random access."""

from __future__ import annotations

from os import PathLike
from typing import Any

from tokenmill.datasets.dataset import open_dataset


class TokenmillSource:
    """Whole documents as int64 ids, including EOS if `prepare` added it; torchtitan packs them itself."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._documents = open_dataset(path)

    def __len__(self) -> int:
        return len(self._documents)

    def __getitem__(self, index: Any) -> dict[str, Any]:
        return {"input_ids": self._documents[int(index)].astype("int64")}
