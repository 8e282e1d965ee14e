"""The output formats: who writes a shard, which types it takes, what a finished dataset needs beside."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tokenmill.base.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.datasets.formats.shard import ShardShape, ShardWriter
    from tokenmill.datasets.ledger.manifest import Manifest

# format -> (module, class); imported when used, so that a reader of one format pays for no other.
_WRITERS = {
    "tokenmill": ("tokenmill", "NativeWriter"),
    "megatron": ("megatron", "MegatronWriter"),
    "arrow": ("tables", "ArrowWriter"),
    "parquet": ("tables", "ParquetWriter"),
    "npy": ("npy", "NpyWriter"),
    "mds": ("mds", "MdsWriter"),
    "litdata": ("litdata", "LitDataWriter"),
}
_FINISHERS = {
    "arrow": ("tables", "finish_arrow"),
    "mds": ("mds", "finish_mds"),
    "litdata": ("litdata", "finish_litdata"),
}
_TYPES = {
    "tokenmill": ("uint16", "uint32"),
    "megatron": ("uint16", "int32", "int64"),
    "litdata": ("uint16", "int32", "int64"),
}
_EVERY_TYPE = ("uint16", "uint32", "int32", "int64")
# Megatron reads vocabularies below this as u16, larger ones as i32.
MEGATRON_U16_LIMIT = 65_500
_NO_COLUMNS = {"megatron", "litdata"}


def choose_dtype(format_name: str, dtype: str, vocab_size: int) -> str:
    """`auto` -> the narrowest type that holds every id and that the format's readers take."""
    allowed = _TYPES.get(format_name, _EVERY_TYPE)
    limit = MEGATRON_U16_LIMIT if format_name == "megatron" else 1 << 16
    if dtype == "auto":
        if vocab_size <= limit:
            return "uint16"
        return "uint32" if "uint32" in allowed else "int32"
    if dtype not in allowed:
        raise ConfigError(
            f"dtype {dtype} is not one of {', '.join(allowed)}, which the format {format_name} has"
        )
    if dtype == "uint16" and vocab_size > 1 << 16:
        raise ConfigError(
            f"dtype uint16 holds ids up to 65535; this vocabulary has {vocab_size}: use uint32 or auto"
        )
    return dtype


def check_columns(format_name: str, columns: tuple[str, ...]) -> None:
    """Raise if the format has no place for columns."""
    if columns and format_name in _NO_COLUMNS:
        raise ConfigError(
            f"the format {format_name} holds token ids only, not {', '.join(columns)}: "
            "leave columns out, or write tokenmill, arrow, parquet, npy or mds"
        )


def open_writer(format_name: str, shape: ShardShape) -> ShardWriter:
    """The writer of one shard."""
    module, name = _WRITERS[format_name]
    writer: ShardWriter = getattr(import_module(f"tokenmill.datasets.formats.{module}"), name)(shape)
    return writer


def finish_dataset(root: Path, manifest: Manifest) -> None:
    """Write what the format's own reader needs beside the shards; called before the manifest is."""
    if manifest.format in _FINISHERS:
        module, name = _FINISHERS[manifest.format]
        getattr(import_module(f"tokenmill.datasets.formats.{module}"), name)(root, manifest)
