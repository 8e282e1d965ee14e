"""Open a finished dataset: memory-mapped, in milliseconds, from any number of processes at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tokenmill.base.durable import digest
from tokenmill.datasets.documents import LOSS_MASK
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.manifest import Manifest, load_manifest
from tokenmill.datasets.ledger.selection import TRAINING, VALIDATION
from tokenmill.datasets.mapped import MappedShards
from tokenmill.datasets.remote import ShardCache, open_cached
from tokenmill.datasets.rows import Rows
from tokenmill.datasets.views import Tail, TooLong, make_view
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.sources.stores import is_remote, join_address


def open_dataset(path: str | os.PathLike[str], *, shards: int | None = None) -> Dataset:
    """Open a finished dataset, from any number of processes at once.

    >>> import tokenmill
    >>> made = tokenmill.prepare(dataset=["a text"], tokenizer=tokenizer, output="out", verbose_level="ERROR")
    >>> tokenmill.open("out")[0].tolist() == made[0].tolist()
    True

    Args:
        path: A directory, or a URL such as `s3://bucket/dataset`, which is read through a local cache:
            shards are fetched when they are read.
        shards: Open only the first shards: the dataset as it was before it grew (`Manifest.grown`).

    Returns:
        The dataset. No token is read yet.

    Raises:
        DatasetError: The dataset is missing, unfinished, corrupt or of a newer version.
    """
    if is_remote(path):
        manifest, cache = open_cached(str(path))
        return Dataset(cache.root, manifest.keep_first(shards), cache)
    dataset = Dataset(Path(path), load_manifest(Path(path)).keep_first(shards))
    dataset.shards.check_sizes()
    return dataset


class Dataset:
    """The documents of a finished dataset, returned by `tokenmill.open` and `tokenmill.prepare`.

    >>> import tokenmill
    >>> texts = ["one text", "another text"]
    >>> dataset = tokenmill.prepare(dataset=texts, tokenizer=tokenizer, output="out", verbose_level="ERROR")
    >>> len(dataset), dataset.num_tokens, str(dataset.dtype)
    (2, 16, 'uint16')
    >>> tokenizer.decode(dataset[1], skip_special_tokens=True)
    'another text'
    >>> dataset.rows(context_length=4)[0].shape
    (4,)
    """

    def __init__(self, path: Path, manifest: Manifest, cache: ShardCache | None = None) -> None:
        self.path = path
        self.manifest = manifest
        self.shards = MappedShards(path, manifest, cache)

    def __repr__(self) -> str:
        size = f"documents={len(self):,}, tokens={self.num_tokens:,}"
        return f"Dataset({self.address!r}, {size}, dtype={self.dtype})"

    @property
    def address(self) -> str:
        """The directory of the dataset, or its URL if `path` is the cache of a remote dataset."""
        cache = self.shards.cache
        return cache.store.address if cache is not None else str(self.path)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the token ids on disk."""
        return self.shards.dtype

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self)

    @property
    def num_tokens(self) -> int:
        """Number of token ids."""
        return self.shards.num_tokens

    @property
    def vocab_size(self) -> int:
        """The tokenizer's vocabulary size. Every id is below it."""
        return self.manifest.tokenizer.vocab_size

    @property
    def has_loss_mask(self) -> bool:
        """True if the dataset stores a loss mask, as datasets of conversations do."""
        return self.shards.has_loss_mask

    @cached_property
    def content_hash(self) -> str:
        """A hash over the files of all shards."""
        return self.manifest.content_hash

    @cached_property
    def units_hash(self) -> str:
        """A hash over the units of the plan, equal for a stream with the same plan."""
        return digest([shard.unit for shard in self.manifest.shards])

    def __len__(self) -> int:
        return self.shards.document_starts[-1]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> NDArray[Any]:
        """Return the token ids of one document without a copy."""
        shard, start, end = self._locate(index)
        return self.shards.file(shard)[start:end]

    def loss_mask(self, index: int) -> NDArray[np.bool_]:
        """Return the loss mask of one document. In a dataset of texts every token is trained."""
        if not self.has_loss_mask:
            return np.ones(len(self[index]), bool)
        shard, start, end = self._locate(index)
        return self.shards.file(shard, LOSS_MASK)[start:end].astype(bool)

    def _locate(self, index: int) -> tuple[int, int, int]:
        """Return the shard of a document and its start and end offsets in that shard."""
        self.require_mappable()
        number = index + self.num_documents if index < 0 else index
        if not 0 <= number < self.num_documents:
            raise IndexError(f"document {index} is outside 0..{self.num_documents - 1}")
        shard, local = self.shards.locate_document(number)
        start, end = self.shards.file(shard, "offsets")[local : local + 2].tolist()
        return shard, start, end

    def rows(
        self,
        context_length: int | None = None,
        overlap: int | None = None,
        *,
        packing: str | None = None,
        tail: Tail | None = None,
        max_documents: int | None = None,
        too_long: TooLong | None = None,
        multiple_of: int | None = None,
        bos_aligned: bool | None = None,
        per_shard: bool | None = None,
        pad_id: int | None = None,
        columns: Sequence[str] | None = None,
        dtype: DTypeLike = None,
        exclude: Iterable[int] = (),
    ) -> Rows:
        """Return rows of tokens, made from the documents when they are read.

        Missing options come from the default view, which `prepare` recorded. Without one, or with another
        `packing`, they default to documents end to end without overlap.

        Args:
            context_length: Tokens in a row.
            overlap: Tokens that a row repeats from the end of the previous row.
            packing: "concat" puts documents end to end, "bestfit" keeps them whole where they fit, and
                "separate" (also "window" and "pad") gives each document rows of its own.
            tail: "drop" or "pad" a last, shorter row: that of the dataset in "concat" (by default dropped),
                that of each document in "separate" (by default padded).
            max_documents: The most documents that "bestfit" puts in a row.
            too_long: "drop", "truncate" or "keep-last" for documents longer than a row. By default they
                continue in the next row, but conversations are truncated unless "concat" or overlapping.
            multiple_of: Pad each document's part of a row to a multiple of this, for context parallelism.
            bos_aligned: "bestfit" without padding. Every row begins with a document. If no document fits the
                remaining space, the start of one fills it. `Rows.dropped_tokens` counts the rest.
            per_shard: Start a new row of "concat" at each shard, as in a stream.
            pad_id: The id of padding; by default the dataset's padding or EOS id.
            columns: Any of `attention_mask`, `labels`, `loss_mask`, `position_ids`, `document_ids`,
                `cu_seqlens`.
            dtype: The integer type of batches. Single rows keep the type on disk.
            exclude: Numbers of documents whose tokens become padding. Rows keep their numbers, so a state
                saved without `exclude` stays valid.

        Returns:
            A sequence of rows.

        Raises:
            ConfigError: The options contradict each other, or `dtype` is too small.
            DatasetError: The format cannot be memory-mapped, or the files hold packed rows.
        """
        self.require_mappable()
        stored = self.manifest.packing
        view = make_view(
            stored.view,
            conversations=self.has_loss_mask,
            context_length=context_length,
            overlap=overlap,
            packing=packing,
            tail=tail,
            max_documents=max_documents,
            too_long=too_long,
            multiple_of=multiple_of,
            bos_aligned=bos_aligned,
            per_shard=per_shard,
            columns=None if columns is None else tuple(columns),
        )
        pad = next((each for each in (pad_id, stored.pad_id, stored.eos_id) if each is not None), None)
        if pad is None and (view.pads or exclude):
            raise ConfigError(
                f"{view.describe()} needs a pad_id: the dataset was prepared without a padding or EOS token"
            )
        if view.by_position and view.tail == "drop" and view.context_length > self.num_tokens:
            raise ConfigError(
                f"context_length is {view.context_length:,}, but {self.path} has only {self.num_tokens:,} "
                "tokens, less than one row. Use a smaller context_length, or tail='pad'"
            )
        return Rows(self, view, pad_id=pad, dtype=dtype, exclude=tuple(exclude))

    def require_mappable(self) -> None:
        """Raise `DatasetError` with a remedy if the documents cannot be memory-mapped."""
        if self.shards.mappable:
            return
        found = find_format(self.manifest.format)
        remedy = f"tokenmill dataset convert {self.path} NEW_DIR --format tokenmill"
        # Documents cannot be recovered from files of packed rows.
        if not found.readable or self.manifest.layout == "rows":
            remedy = "tokenmill prepare INPUTS --output NEW_DIR --format tokenmill"
        raise DatasetError(
            f"{self.path} is in the format {found.name}, which {found.read_by} reads. "
            f"For random access here: {remedy}"
        )

    def split(self, name: str) -> Dataset:
        """Return the split of that name, such as `"validation"`. `"training"` is this dataset.

        Raises:
            DatasetError: The split does not exist. `prepare(..., validation="0.5%")` creates one.
        """
        if name in (TRAINING, "train"):
            return self
        try:
            return open_dataset(join_address(self.address, name))
        except DatasetError as error:
            raise DatasetError(
                f"there is no split {name!r} ({error}); `tokenmill prepare --validation 0.5%` makes one "
                f"called {VALIDATION}"
            ) from None
