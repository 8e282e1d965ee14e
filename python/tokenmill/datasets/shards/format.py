"""An output format as one object, and the way to it by its name. No other module spells a format's name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from tokenmill.base.folders import list_modules
from tokenmill.datasets.columns import LOSS_MASK, find_column
from tokenmill.errors import ConfigError, DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tokenmill.datasets.ledger.manifest import Manifest
    from tokenmill.datasets.ledger.receipt import ShardEntry
    from tokenmill.datasets.shards.items import Items, ShardShape
    from tokenmill.datasets.shards.writer import ShardWriter

DTYPES = ("uint16", "uint32", "int32", "int64")


@dataclass(frozen=True, kw_only=True)
class Format:
    """What there is to know of an output format: who writes and reads it, and what it can hold."""

    name: str
    writer: Callable[[ShardShape], ShardWriter]
    """The writer of one shard."""
    reader: Callable[[Path, Manifest, ShardEntry], Iterator[Items]] | None = None
    """A shard's items, some at a time; None for a format that is written and not read back here."""
    read_by: str
    """What reads it elsewhere."""
    mapped: bool = False
    """Whether `tokenmill.open` maps it: bare tokens, and an index that knows the documents, in rows too."""
    dtypes: tuple[str, ...] = DTYPES
    u16_vocabulary: int = 1 << 16
    """The largest vocabulary that its readers take as u16."""
    holds_columns: bool = True
    """Whether it has a place for any column; a loss mask has one in every format."""
    prefixes: bool = False
    """Whether its readers take a list of shards by path, without suffix, and weight: a blend."""
    document_columns: bool = False
    """Whether whole documents can have columns too, not only rows."""
    holds_masks_only: bool = False
    """Whether it keeps of a column only where it counts, so that only columns that say so can be written."""
    bytes_per_document: int | None = None
    """What a document takes beside its tokens; None if only a written sample can tell."""
    beside: tuple[str, ...] = ()
    """Files in the dataset's own directory that its readers want."""
    finish: Callable[[Path, Manifest], None] | None = None
    """Writes the files of `beside`; called before the manifest is published."""
    list_splits: Callable[[Sequence[str]], tuple[str, bytes]] | None = None
    """The file that tells its readers of the datasets in a directory of splits: its name and content."""

    def choose_dtype(self, dtype: str, vocab_size: int) -> str:
        """`auto` -> the narrowest type that holds every id and that the format's readers take."""
        if dtype == "auto":
            if vocab_size <= self.u16_vocabulary:
                return "uint16"
            return "uint32" if "uint32" in self.dtypes else "int32"
        if dtype not in self.dtypes:
            raise ConfigError(
                f"dtype {dtype} is not one of {', '.join(self.dtypes)}, which the format {self.name} has"
            )
        if dtype == "uint16" and vocab_size > 1 << 16:
            raise ConfigError(
                f"dtype uint16 holds ids up to 65535; this vocabulary has {vocab_size}: use uint32 or auto"
            )
        return dtype

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise `ConfigError` if there are columns and no place for them."""
        lost = [name for name in columns if name not in self.keep_columns(columns)]
        if lost:
            others = ", ".join(other.name for other in list_formats() if other.holds_columns)
            raise ConfigError(
                f"the format {self.name} holds token ids and a loss mask only, not {', '.join(lost)}: "
                f"leave columns out, or write one of {others}"
            )
        plain = [name for name in columns if self.holds_masks_only and not find_column(name).masks]
        if plain:
            raise ConfigError(
                f"the format {self.name} only keeps where a column counts, and {', '.join(plain)} does "
                "not say that: leave it out, or write another format"
            )

    def keep_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Those of some columns that the format has a place for."""
        return tuple(name for name in columns if self.holds_columns or name == LOSS_MASK)

    def read_items(self, root: Path, manifest: Manifest, shard: ShardEntry) -> Iterator[Items]:
        """A shard's items; raises `DatasetError` for a damaged shard, or a format that is not read here."""
        if self.reader is None:
            raise DatasetError(
                f"the format {self.name} is written here and not read back; {self.read_by} reads it. To have "
                f"the tokens in another format, prepare them again: tokenmill prepare INPUTS --format "
                f"{' or '.join(other.name for other in list_formats() if other.reader is not None)}"
            )
        return self.reader(root, manifest, shard)


def list_format_names() -> tuple[str, ...]:
    """Every output format, by name."""
    return list_modules("datasets/formats")


def find_format(name: str) -> Format:
    """The format of that name, whose module is imported now, so that nobody pays for the others."""
    if name not in list_format_names():
        raise DatasetError(
            f"{name!r} is not an output format; the formats are {', '.join(list_format_names())}. "
            "A newer tokenmill may know it: pip install --upgrade tokenmill"
        )
    found: Format = import_module(f"tokenmill.datasets.formats.{name}").FORMAT
    return found


def list_formats() -> tuple[Format, ...]:
    """All of them, with what they import."""
    return tuple(find_format(name) for name in list_format_names())


def read_items(root: Path, manifest: Manifest, shard: ShardEntry) -> Iterator[Items]:
    """A shard's items as its dataset's format has them."""
    return find_format(manifest.format).read_items(root, manifest, shard)
