"""A data module for Lightning over a prepared dataset, with the state that resumes in mid-epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.datasets.dataset import open_dataset
from tokenmill.errors import explain_missing

if TYPE_CHECKING:
    from os import PathLike


def data_module(
    path: str | PathLike[str], context_length: int, batch_size: int, *, seed: int = 0, num_workers: int = 2
) -> Any:
    """A `LightningDataModule` whose batches have `input_ids` and `labels`."""
    with explain_missing("lightning", None, "a data module of Lightning"):
        from lightning import LightningDataModule

    class TokenmillData(LightningDataModule):  # type: ignore[misc]
        """Batches of rows, in an order that the seed decides."""

        def train_dataloader(self) -> Any:
            rows = open_dataset(path).rows(context_length, columns=("labels",))
            return rows.batches(batch_size, shuffle=True, seed=seed).to_torch(num_workers=num_workers)

    return TokenmillData()
