"""`tokenmill dataset transcode`: one tokenizer's ids become another's, without the raw text.

The documents of the old dataset are decoded while they are read; from there on it is an ordinary `prepare`,
so units, receipts, resuming and the account are the same, and so are the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.datasets.reader.dataset import Dataset, open_dataset
from tokenmill.errors import DatasetError
from tokenmill.pipeline.decoded import DocumentDecoder, decode_by_input, decode_by_shard
from tokenmill.pipeline.prepare import prepare
from tokenmill.report.dataset_tokenizer import load_dataset_tokenizer
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.extension import find_added_pairs

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.datasets.ledger.manifest import PackingIdentity

_TOKEN_FILTERS = ("min_tokens", "max_tokens")


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
    >>> small, large = (tokenmill.train(iter(["low lower"] * 9), n, progress=False) for n in (259, 263))
    >>> folder = tempfile.mkdtemp()
    >>> made = tokenmill.prepare(dataset=["lower"], tokenizer=small, output=f"{folder}/a", report=False)
    >>> again = tokenmill.transcode(f"{folder}/a", large, f"{folder}/b", old_tokenizer=small, report=False)
    >>> large.decode(again[0], skip_special_tokens=True)
    'lower'

    Args:
        dataset: A finished dataset.
        tokenizer: The new tokenizer, or whatever `Tokenizer.load` takes.
        output: The directory of the new dataset.
        old_tokenizer: The tokenizer of `dataset`, if it has moved.
        **options: Settings of `prepare` that concern speed and logs, such as `threads`.

    Returns:
        The new dataset, equal to one that is prepared from the raw text.

    Raises:
        DatasetError: The text cannot be recovered from the old ids (a normalizer, unknown tokens).
    """
    source = open_dataset(dataset)
    if old_tokenizer is not None and not isinstance(old_tokenizer, Tokenizer):
        old_tokenizer = Tokenizer.load(old_tokenizer)
    old: Tokenizer = load_dataset_tokenizer(source.address, source.manifest, old_tokenizer)
    _check_lossless(source, old)
    new = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
    manifest = source.manifest
    packing = manifest.packing
    markers = _choose_markers(packing, old, new)
    filters = {key: manifest.config.get(f"filter.{key}") for key in _TOKEN_FILTERS}
    # Where a filter counts tokens, every document is counted again.
    joins = find_added_pairs(old, new) if not any(filters.values()) else None
    decoder = DocumentDecoder(source, old, joins)
    by_input = decode_by_input(decoder)
    settings = {
        "mode": packing.mode,
        "context_length": packing.context_length,
        "overlap": packing.overlap,
        "tail": packing.tail,
        "columns": packing.columns,
        "format": manifest.format,
        "special": manifest.config.get("tokenizer.special", "text"),
        **markers,
        **filters,
        "drop_blank": False,
        # One unit, and so one shard, for each shard of the old dataset.
        "unit_bytes": 1,
    }
    if by_input is not None:
        settings |= {"provenance": True, **by_input.units}
    parts = decode_by_shard(decoder) if by_input is None else by_input.parts
    made = prepare(dataset=parts, tokenizer=new, output=str(output), **settings, **options)
    assert isinstance(made, Dataset), "the parts have no splits"
    return made


def _check_lossless(source: Dataset, old: Tokenizer) -> None:
    recipe, reason = old.recipe, None
    account = source.manifest.account
    by_tokens = sum(account.documents_dropped[key] for key in _TOKEN_FILTERS)
    if recipe.model is None or not old.engine.takes_parts:
        reason = f"its tokenizer runs on the {old.strategy.name} engine ({old.strategy.reason})"
    elif recipe.normalizer is not None:
        reason = "its tokenizer has a normalizer, which changes text before it is encoded"
    elif recipe.model.kind != "bytes" or recipe.model.end_of_word_suffix:
        reason = "its tokenizer spells words with markers, so its ids do not keep every space"
    elif account.to_json().get("replaced"):
        reason = "some of its records were changed when they were read (--on-error replace)"
    elif account.tokens_dropped["tail"]:
        reason = f"{account.tokens_dropped['tail']:,} tokens at the ends of rows were dropped (tail drop)"
    elif by_tokens:
        reason = f"{by_tokens:,} documents were left out by their number of tokens, which changes"
    if reason is not None:
        raise DatasetError(
            f"{source.address} cannot be transcoded: {reason}; prepare it from the raw text instead"
        )


def _choose_markers(packing: PackingIdentity, old: Tokenizer, new: Tokenizer) -> dict[str, Any]:
    """The same tokens around documents, by their strings where the new tokenizer has them, else by role."""
    strings = {token: string for string, token in old.special_tokens.items()}
    settings: dict[str, Any] = {}
    for key, token in (("bos", packing.bos_id), ("eos", packing.eos_id)):
        string = None if token is None else strings.get(token)
        settings[key] = False if token is None else string if string in new.special_tokens else True
    pad = strings.get(packing.pad_id) if packing.pad_id is not None else None
    return settings | ({"pad_token": pad} if pad in new.special_tokens else {})
