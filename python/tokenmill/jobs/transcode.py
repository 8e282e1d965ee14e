"""`tokenmill dataset transcode`: one tokenizer's ids become another's, without the raw text.

Each shard of the old dataset is an input of its own, decoded while it is read; from there on it is an
ordinary `prepare`, so units, receipts, resuming and the account are the same, and so are the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.errors import DatasetError
from tokenmill.base.texts import Texts
from tokenmill.datasets.reader.dataset import Dataset, open_dataset
from tokenmill.engine.tokenizer import Tokenizer
from tokenmill.engine.vocabulary.words import surface
from tokenmill.insight.dataset_tokenizer import load_dataset_tokenizer
from tokenmill.jobs.prepare.prepare import prepare
from tokenmill.sources.memory import Parts
from tokenmill.sources.model import Block

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.manifest import PackingIdentity
    from tokenmill.sources.fields import Request

# Bytes of text for a token, to plan by; what is read says how many they really were.
_BYTES_PER_TOKEN = 4


def transcode(
    dataset: str | Path,
    tokenizer: str | Path | Tokenizer,
    output: str | Path,
    *,
    old_tokenizer: str | Path | Tokenizer | None = None,
    **options: Any,
) -> Dataset:
    """Write the documents of `dataset` with the ids of another tokenizer.

    >>> import tempfile, tokenmill
    >>> small, large = (tokenmill.train(iter(["low lower"] * 9), n, progress=False) for n in (258, 262))
    >>> folder = tempfile.mkdtemp()
    >>> made = tokenmill.prepare(dataset=["lower"], tokenizer=small, output=f"{folder}/a", report=False)
    >>> again = tokenmill.transcode(f"{folder}/a", large, f"{folder}/b", old_tokenizer=small, report=False)
    >>> large.decode(again[0])
    'lower'

    Args:
        dataset: A finished dataset.
        tokenizer: The new tokenizer, or whatever `Tokenizer.load` takes.
        output: The directory of the new dataset.
        old_tokenizer: The tokenizer of `dataset`, where it is no longer where it was.
        **options: Settings of `prepare` about speed and words, such as `threads`.

    Returns:
        The new dataset, equal to one that is prepared from the raw text.

    Raises:
        DatasetError: The old ids do not tell the text (a normalizer, unknown tokens), with the reason.
    """
    source = open_dataset(dataset)
    old = _old_tokenizer(source, old_tokenizer)
    _check_lossless(source, old)
    new = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
    manifest = source.manifest
    packing = manifest.packing
    widths = np.array([len(token) for token in surface(old)], np.int64)
    for token in old.recipe.added:
        widths[token.id] = len(token.content.encode())
    starts = accumulate((entry.documents for entry in manifest.shards), initial=0)
    shards = Parts(
        DecodedShard(source, old, number, widths, first)
        for number, first in zip(range(len(manifest.shards)), starts, strict=False)
    )
    settings = {
        "mode": packing.mode,
        "context_length": packing.context_length,
        "overlap": packing.overlap,
        "tail": packing.tail,
        "columns": packing.columns,
        "format": manifest.format,
        "special": manifest.config.get("tokenizer.special", "text"),
        **_markers(packing, old, new),
        "drop_blank": False,
        # One unit, and so one shard, for each shard of the old dataset.
        "unit_bytes": 1,
    }
    made = prepare(dataset=shards, tokenizer=new, output=str(output), **settings, **options)
    assert isinstance(made, Dataset), "the shards have no splits"
    return made


def _old_tokenizer(source: Dataset, given: str | Path | Tokenizer | None) -> Tokenizer:
    loaded = given if given is None or isinstance(given, Tokenizer) else Tokenizer.load(given)
    found: Tokenizer = load_dataset_tokenizer(source.manifest, loaded)
    return found


def _check_lossless(source: Dataset, old: Tokenizer) -> None:
    recipe, reason = old.recipe, None
    if recipe.model is None or not old.engine.takes_parts:
        reason = f"its tokenizer runs on the {old.strategy.name} engine ({old.strategy.reason})"
    elif recipe.normalizer is not None:
        reason = "its tokenizer has a normalizer, which changes text before it is encoded"
    elif recipe.model.kind != "bytes" or recipe.model.end_of_word_suffix:
        reason = "its tokenizer spells words with markers, so that ids do not tell every space"
    elif source.manifest.account.to_json().get("replaced"):
        reason = "some of its records were changed when they were read (--on-error replace)"
    if reason is not None:
        raise DatasetError(
            f"{source.address} cannot be transcoded: {reason}; prepare it from the raw text instead"
        )


def _markers(packing: PackingIdentity, old: Tokenizer, new: Tokenizer) -> dict[str, Any]:
    """The same tokens around documents, by their strings where the new tokenizer has them, else by role."""
    strings = {token: string for string, token in old.special_tokens.items()}
    settings: dict[str, Any] = {}
    for key, token in (("bos", packing.bos_id), ("eos", packing.eos_id)):
        string = None if token is None else strings.get(token)
        settings[key] = False if token is None else string if string in new.special_tokens else True
    pad = strings.get(packing.pad_id) if packing.pad_id is not None else None
    return settings | ({"pad_token": pad} if pad in new.special_tokens else {})


@dataclass(slots=True)
class DecodedShard:
    """The documents of one shard as texts, given the shape of data in memory."""

    dataset: Dataset
    tokenizer: Tokenizer
    number: int
    widths: NDArray[np.int64]
    first: int
    rows: int | None = field(default=None, init=False)

    @property
    def size(self) -> int:
        """About how many bytes of text."""
        return self.dataset.manifest.shards[self.number].tokens * _BYTES_PER_TOKEN

    def identity(self) -> str:
        """The hash of the shard's files."""
        entry = self.dataset.manifest.shards[self.number]
        return f"{self.number:08d}{entry.file('tokens').sha256[:24]}"

    def sample(self) -> list[Any]:
        """What a record looks like: a text."""
        return [""]

    def blocks(self, request: Request, start: int, stop: int | None, /) -> Iterator[Block]:
        """All documents, decoded some at a time."""
        del start, stop  # a shard is always read whole
        entry = self.dataset.manifest.shards[self.number]
        first, held, held_tokens = 0, [], 0
        for local in range(entry.documents):
            held.append(self._document(local))
            held_tokens += len(held[-1])
            if held_tokens * _BYTES_PER_TOKEN >= request.block_bytes:
                yield self._block(first, held)
                first, held, held_tokens = local + 1, [], 0
        if held:
            yield self._block(first, held)

    def _document(self, local: int) -> NDArray[Any]:
        """The ids of one document without the tokens around it."""
        packing = self.dataset.manifest.packing
        ids = self.dataset[self.first + local]
        start = int(packing.bos_id is not None and len(ids) > 0 and ids[0] == packing.bos_id)
        stop = len(ids) - int(packing.eos_id is not None and len(ids) > start and ids[-1] == packing.eos_id)
        return ids[start:stop]

    def _block(self, first: int, documents: list[NDArray[Any]]) -> Block:
        ids = np.concatenate(documents) if documents else np.empty(0, np.uint32)
        ends = np.cumsum([0, *map(len, documents)])
        places = np.concatenate([[0], np.cumsum(self.widths[ids])])
        data = self.tokenizer.decode_bytes(ids)
        rows = np.arange(first, first + len(documents))
        texts = Texts(data, np.ascontiguousarray(places[ends], np.int64))
        return Block(texts, rows, bytes_read=len(data), rows_read=len(documents))
