"""Train from rows or a mixture with the `Trainer` of transformers, and resume exactly.

    class Trainer(FeedMixin, transformers.Trainer): ...

    trainer = Trainer(model, args, train_dataset=dataset.rows(2048, columns=("labels",)))
    trainer.train(resume_from_checkpoint=True)

The position in the data is part of `trainer_state.json` in each checkpoint, so a checkpoint has both or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tokenmill.datasets.feed import Feed
from tokenmill.datasets.mixture import Mixture
from tokenmill.datasets.rows import Rows
from tokenmill.errors import ConfigError, DatasetError

_SOURCE_IDS = "source_ids"


class FeedMixin:
    """A mixin for `Trainer` and its subclasses whose `train_dataset` is `Rows` or a `Mixture`.

    Every rank reads its own rows. `Rows` are shuffled by `data_seed`, or `seed`, unless
    `train_sampling_strategy` is "sequential"; a mixture has an order of its own, and a stream needs
    `max_steps`. One step reads
    `batch size x gradient accumulation` rows on each rank, and an epoch ends with the last whole step.
    """

    args: Any
    accelerator: Any
    train_dataset: Any
    _train_batch_size: int
    _feed_callback: Any = None

    def get_train_dataloader(self) -> Any:
        """Return the loader of this rank, or that of the superclass for a dataset of another library."""
        if not isinstance(self.train_dataset, Rows | Mixture):
            return super().get_train_dataloader()  # type: ignore[misc]
        loader = _Loader(self._make_feed(), self.args)
        # Batches that were read are not read again to be skipped.
        self.args.ignore_data_skip = True
        if self._feed_callback is not None:
            self.remove_callback(self._feed_callback)  # type: ignore[attr-defined]
        self._feed_callback = _make_callback(loader)
        self.add_callback(self._feed_callback)  # type: ignore[attr-defined]
        return loader

    def _make_feed(self) -> Feed:
        args, source = self.args, self.train_dataset
        parallel = getattr(self.accelerator, "parallelism_config", None)
        if parallel is not None and parallel.non_data_parallel_size > 1:
            raise ConfigError(
                "the ranks of a tensor, context or sequence parallel group must read the same rows, which "
                "FeedMixin does not do: use data parallelism alone, or rows.to_hf() as train_dataset"
            )
        options = {"rank": args.process_index, "world_size": args.world_size, "drop_last": True}
        if isinstance(source, Rows) and getattr(args, "train_sampling_strategy", "") != "sequential":
            seed = args.seed if args.data_seed is None else args.data_seed
            options |= {"shuffle": "local" if source.dataset.shards.endless else True, "seed": seed}
        feed: Feed = source.batches(self._train_batch_size * args.gradient_accumulation_steps, **options)
        if not len(feed):
            raise ConfigError(
                f"train_dataset has {len(source):,} rows, and one step reads "
                f"{feed.batch_size * feed.world_size:,}: lower the batch size, or add data"
            )
        return feed


class _Loader:
    """Yields the micro-batches of a feed whose batches are whole steps; `len` is that of a whole epoch."""

    def __init__(self, feed: Feed, args: Any) -> None:
        self.feed = feed
        self.steps = len(feed)
        self.parts: int = args.gradient_accumulation_steps
        workers = args.dataloader_num_workers
        self._loader = feed.to_torch(
            workers, **({"pin_memory": args.dataloader_pin_memory} if workers else {})
        )

    def __len__(self) -> int:
        return self.steps * self.parts

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if not len(self.feed):
            # The checkpoint was saved at the end of an epoch: this begins the next one.
            for _ in self._loader:
                pass
        size = self.feed.batch_size // self.parts
        for batch in self._loader:
            # The loss functions of transformers do not take it.
            columns = {key: value for key, value in batch.items() if key != _SOURCE_IDS}
            for start in range(0, self.feed.batch_size, size):
                yield {key: value[start : start + size] for key, value in columns.items()}


def _make_callback(loader: _Loader) -> Any:
    from transformers import TrainerCallback
    from transformers.trainer_callback import ExportableState

    class TokenmillFeed(TrainerCallback, ExportableState):  # type: ignore[misc]
        """Saves the position in the data with the state of the trainer, and restores it."""

        def state(self) -> dict[str, Any]:
            """Return what `trainer_state.json` records."""
            return {"args": {}, "attributes": {"feed": loader.feed.state_dict()}}

        def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            """Continue where the checkpoint was saved."""
            if not state.global_step:
                return
            saved = state.stateful_callbacks.get(type(self).__name__)
            if saved is None:
                raise DatasetError(
                    f"the checkpoint of step {state.global_step} has no position in the data, so it was not "
                    "saved with FeedMixin: resume it with the trainer that saved it, or start anew"
                )
            loader.feed.load_state_dict(saved["attributes"]["feed"])

        def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            """Set the epoch, which the trainer counts from where it was resumed."""
            state.epoch = state.global_step / loader.steps

    return TokenmillFeed()
