"""Blend datasets for Megatron: the values of `--data-path` and `--per-dataset-sequences-path`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tokenmill.datasets.remote import read_manifest
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.sources.stores import is_remote, join_address


@dataclass(frozen=True)
class Blend:
    """The weight of each prefix, in order, with a sum of 1, and its `(sequences, document indices)`."""

    weights: dict[str, float]
    sequences: dict[str, tuple[int, int]]

    def to_data_path(self) -> str:
        """Return one line for `--data-path`: `0.25 /data/a/shards/x 0.75 /data/b/shards/y`."""
        return " ".join(f"{weight:.9g} {prefix}" for prefix, weight in self.weights.items())


def blend(named: list[tuple[str, float | None]]) -> Blend:
    """Return the blend of datasets with their shares, or weighted by their number of tokens.

    Raise `ConfigError` for invalid shares, `DatasetError` for a format that cannot be blended.
    """
    given = [weight for _, weight in named if weight is not None]
    if given and (len(given) != len(named) or min(given) < 0 or sum(given) <= 0):
        raise ConfigError("give a share above 0 to all datasets or to none: DATASET=0.3 DATASET=0.7")
    weights: dict[str, float] = {}
    sequences: dict[str, tuple[int, int]] = {}
    for path, weight in named:
        manifest = read_manifest(path)
        root = path.rstrip("/") if is_remote(path) else str(Path(path).resolve())
        if manifest.format != "megatron":
            raise DatasetError(
                f"{path} is a {manifest.format} dataset; rewrite it for Megatron: "
                f"tokenmill dataset convert {path} NEW_DIR --format megatron"
            )
        share = float(manifest.tokens) if weight is None else weight
        for shard in manifest.shards:
            if not shard.tokens:
                continue
            prefix = join_address(root, shard.file("tokens").path).rpartition(".")[0]
            if prefix in weights:
                raise ConfigError(f"{path} is named twice; name it once")
            weights[prefix] = share * shard.tokens / manifest.tokens
            count = shard.rows or shard.documents
            # As in the header of the .idx: document indices have one entry more than documents.
            sequences[prefix] = (count, count + 1)
    total = sum(weights.values())
    if not total:
        raise DatasetError("these datasets have no tokens")
    return Blend({prefix: weight / total for prefix, weight in weights.items()}, sequences)
