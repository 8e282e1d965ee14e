"""Blend datasets for Megatron: the values of `--data-path` and `--per-dataset-sequences-path`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenmill.datasets.remote import read_manifest
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.sources.stores import is_remote, join_address


def blend(named: Sequence[str]) -> tuple[dict[str, float], dict[str, tuple[int, int]]]:
    """Return the weight of each shard's prefix, with a sum of 1, and its `(sequences, document indices)`.

    Datasets are weighted by their number of tokens, or by shares: `DATASET=0.3`. Raise `ConfigError` for
    invalid shares, `DatasetError` for a format that cannot be blended.
    """
    shares = [_parse_share(each) for each in named]
    given = [share for _, share in shares if share is not None]
    if given and (len(given) != len(shares) or min(given) < 0):
        raise ConfigError("give a share above 0 to all datasets or to none: DATASET=0.3 DATASET=0.7")
    weights: dict[str, float] = {}
    sequences: dict[str, tuple[int, int]] = {}
    for path, share in shares:
        manifest = read_manifest(path)
        if manifest.format != "megatron":
            raise DatasetError(
                f"{path} is a {manifest.format} dataset; rewrite it for Megatron: "
                f"tokenmill dataset convert {path} NEW_DIR --format megatron"
            )
        root = path.rstrip("/") if is_remote(path) else str(Path(path).resolve())
        for shard in (shard for shard in manifest.shards if shard.tokens):
            prefix = join_address(root, shard.file("tokens").path).rpartition(".")[0]
            if prefix in weights:
                raise ConfigError(f"{path} is named twice; name it once")
            weights[prefix] = shard.tokens if share is None else share * shard.tokens / manifest.tokens
            count = shard.rows or shard.documents
            # As in the header of the .idx: document indices have one entry more than documents.
            sequences[prefix] = (count, count + 1)
    total = sum(weights.values())
    if not total:
        raise DatasetError("these datasets have no tokens, or only shares of 0")
    return {prefix: weight / total for prefix, weight in weights.items()}, sequences


def _parse_share(text: str) -> tuple[str, float | None]:
    path, sign, share = text.rpartition("=")
    if not sign or Path(text).exists():
        return text, None
    try:
        return path, float(share)
    except ValueError:
        raise ConfigError(f"{text!r}: the share {share!r} is not a number") from None
