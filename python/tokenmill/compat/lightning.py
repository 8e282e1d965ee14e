"""A data module for Lightning over a prepared dataset, with a state that resumes within an epoch."""

from __future__ import annotations

from os import PathLike
from typing import Any

from tokenmill.datasets.dataset import open_dataset
from tokenmill.errors import explain_missing


def data_module(
    path: str | PathLike[str], context_length: int, batch_size: int, *, seed: int = 0, num_workers: int = 2
) -> Any:
    """Return a `LightningDataModule` whose batches have `input_ids` and `labels`."""
    with explain_missing("lightning", None, "a data module of Lightning"):
        from lightning import LightningDataModule

    class TokenmillData(LightningDataModule):  # type: ignore[misc]
        """Batches of rows, in an order that depends on the seed."""

        def train_dataloader(self) -> Any:
            rows = open_dataset(path).rows(context_length, columns=("labels",))
            return rows.batches(batch_size, shuffle=True, seed=seed).to_torch(num_workers=num_workers)

    return TokenmillData()
