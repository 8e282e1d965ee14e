"""Write a dataset with the ids of another tokenizer: decode each document, and encode its text again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.datasets.dataset import Dataset
from tokenmill.datasets.documents import frame_documents
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.manifest import PackingIdentity, TokenizerIdentity
from tokenmill.datasets.ledger.receipt import Account
from tokenmill.datasets.ledger.selection import REMOVED
from tokenmill.datasets.remote import COPY
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.pipeline.encode import Encoded
from tokenmill.pipeline.rewrite import open_source, read_side_files, write_again
from tokenmill.report.dataset_tokenizer import load_dataset_tokenizer
from tokenmill.tokenizer.engines.backend import Special, TokenBatch
from tokenmill.tokenizer.files.hf import walk
from tokenmill.tokenizer.files.kinds import copy_files
from tokenmill.tokenizer.parity import check_parity
from tokenmill.tokenizer.recipe import Role
from tokenmill.tokenizer.tokenizer import Tokenizer


def transcode(
    dataset: str | Path,
    tokenizer: str | Path | Tokenizer,
    output: str | Path,
    *,
    old_tokenizer: str | Path | Tokenizer | None = None,
    threads: int | None = None,
) -> Dataset:
    """Write the documents of `dataset` with the ids of another tokenizer.

    >>> import tempfile, tokenmill
    >>> train = tokenmill.train_from_iterator
    >>> small, large = (train(["low lower"] * 9, size, progress=False) for size in (259, 263))
    >>> folder = tempfile.mkdtemp()
    >>> made = tokenmill.prepare(dataset=["lower"], tokenizer=small, output=f"{folder}/a", report=False)
    >>> again = tokenmill.transcode(f"{folder}/a", large, f"{folder}/b", old_tokenizer=small)
    >>> large.decode(again[0], skip_special_tokens=True)
    'lower'

    Args:
        dataset: A finished dataset.
        tokenizer: The new tokenizer, or an argument of `Tokenizer.load`.
        output: The directory of the new dataset.
        old_tokenizer: The tokenizer of `dataset`, if it has moved.
        threads: The maximum number of threads. Default: all cores of this process.

    Returns:
        The new dataset, equal to one prepared from the raw text.

    Raises:
        DatasetError: The text cannot be recovered from the old ids (a normalizer, unknown tokens).
    """
    source, plan = open_source(dataset, output)
    manifest = source.manifest
    old: Tokenizer = load_dataset_tokenizer(source.path, manifest, old_tokenizer)
    new = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
    if reason := next(_list_losses(source, old, new), None):
        raise _refuse(source, reason)
    special = manifest.config.get("tokenizer.special", "text")
    first = next(source.shards.read_documents(0), None) if manifest.documents else None
    if first is not None:
        sample = old.decode_batch(_strip_markers(manifest.packing, *first[1:]))
        lenient: Special = "text" if special == "forbid" else special
        new = check_parity(new, sample, special=lenient, threads=threads).tokenizer
    before = manifest.packing
    bos, eos = _translate(before.bos_id, "bos", old, new), _translate(before.eos_id, "eos", old, new)
    pad = _translate(before.pad_id, "pad", old, new)
    packing = replace(before, bos_id=bos, eos_id=eos, pad_id=eos if pad is None else pad)
    # With a token that strips spaces, equal ids do not prove equal text.
    stripping = [token.id for token in old.recipe.added if token.lstrip or token.rstrip]

    def encode(_shard: int, _first: int, documents: Encoded, account: Account) -> Encoded:
        batch = _strip_markers(before, documents.ids, documents.offsets)
        texts = old.decode_batch(batch)
        again = old.encode_batch(texts, special=special, threads=threads)
        same = np.array_equal(again.ids, batch.ids) and np.array_equal(again.offsets, batch.offsets)
        if not same or np.isin(batch.ids, stripping).any():
            raise _refuse(source, "some documents decode to a text that its tokenizer encodes to other ids")
        made = new.encode_batch(texts, special=special, threads=threads)
        wide = new.vocab_size > 1 << 16
        ids, offsets = frame_documents(made.ids, made.offsets, bos, eos, wide)
        account.tokens_encoded += len(made.ids)
        account.tokens_added += len(ids) - len(made.ids)
        return Encoded(ids, offsets, documents.origins)

    name = "tokenizer" if isinstance(tokenizer, Tokenizer) else str(tokenizer)
    identity = TokenizerIdentity(name, new.fingerprint, new.vocab_size)
    dtype = find_format(manifest.format).choose_dtype("auto", new.vocab_size)
    files = {f"{COPY}/{name}": data for name, data in copy_files(new.recipe).items()}
    return write_again(
        source,
        plan,
        output,
        encode,
        files=files | {key: data for key, data in read_side_files(source.path).items() if key == REMOVED},
        target=replace(plan.target, dtype=dtype, tokenizer=identity, packing=packing),
        values={
            "tokenizer.fingerprint": new.fingerprint,
            "tokenizer.pattern": None,
            "output.dtype": dtype,
            "packing.bos": bos,
            "packing.eos": eos,
        },
    )


def _refuse(source: Dataset, reason: str) -> DatasetError:
    return DatasetError(
        f"{source.address} cannot be transcoded: {reason}; prepare it from the raw text instead"
    )


def _strip_markers(packing: PackingIdentity, ids: NDArray[Any], offsets: NDArray[np.int64]) -> TokenBatch:
    """Return the documents without BOS and EOS, which every document has if the dataset has them."""
    kept, count = np.ones(len(ids), bool), np.arange(len(offsets))
    for marker, places in ((packing.bos_id, offsets[:-1]), (packing.eos_id, offsets[1:] - 1)):
        if marker is not None:
            kept[places] = False
            offsets = offsets - count
    return TokenBatch(ids[kept], offsets)


def _list_losses(source: Dataset, old: Tokenizer, new: Tokenizer) -> Iterator[str]:
    """Yield the reasons that the raw text cannot be recovered from the ids."""
    manifest, recipe, model = source.manifest, old.recipe, old.recipe.model
    if manifest.account.learned_read:
        yield "it contains conversations, whose control tokens belong to the old tokenizer"
    if manifest.account.replaced.total():
        yield "some of its records were changed when they were read (`on_error='replace'`)"
    if any(manifest.config.get(f"filter.{key}") is not None for key in ("min_tokens", "max_tokens")):
        yield "its documents were chosen by their number of tokens, which changes"
    if model is None or not old.engine.native:
        yield f"its tokenizer runs on the {old.strategy.name} engine ({old.strategy.reason})"
        return
    kinds = {str(step.get("type")) for step in walk(recipe.normalizer)}
    if kinds and (kinds != {"NFC"} or recipe.normalizer != new.recipe.normalizer):
        yield f"its tokenizer has the normalizer {', '.join(sorted(kinds))}, which the new one does not share"
    steps = walk(recipe.pre_tokenizer)
    if (
        model.kind != "bytes"
        or model.end_of_word_suffix
        or len({token for token in model.tokens if token is not None and len(token) == 1}) < 256
        or any(step.get("add_prefix_space") or step.get("behavior") == "Removed" for step in steps)
    ):
        yield "its tokenizer adds or loses text: markers of words, missing bytes or removed characters"


def _translate(token: int | None, role: Role, old: Tokenizer, new: Tokenizer) -> int | None:
    """Return the id of a marker: of the same string if the new tokenizer has it, else of the same role."""
    if token is None:
        return None
    string = next((string for string, each in old.special_tokens.items() if each == token), None)
    found = new.special_tokens.get(string or "", new.special_id(role))
    if found is None and role != "pad":
        raise ConfigError(f"the new tokenizer has no {role.upper()} token, which documents have before")
    return found
