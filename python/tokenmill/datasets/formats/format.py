"""An output format as one object, and the registry of formats by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.datasets.documents import LOSS_MASK
from tokenmill.datasets.formats.files import Items, ShardShape, ShardWriter
from tokenmill.errors import ConfigError, DatasetError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.datasets.ledger.manifest import Manifest

DTYPES = ("uint16", "uint32", "int32", "int64")
# The module of each format, imported on first use. Its attribute is the name in upper case.
MODULES = {
    "arrow": "tables",
    "datatrove": "flat",
    "litdata": "chunks",
    "mds": "chunks",
    "megatron": "flat",
    "npy": "flat",
    "olmo": "flat",
    "parquet": "tables",
    "tokenmill": "flat",
}


@dataclass(frozen=True, kw_only=True)
class Format:
    """An output format: its writer, its reader and its capabilities."""

    name: str
    writer: Callable[[ShardShape], ShardWriter]
    read_by: str
    """The library that reads it."""
    holds_rows: bool = True
    """True if rows can be stored through a view. Other formats store documents only."""
    map_offsets: Callable[[Path, np.dtype[Any]], NDArray[Any]] | None = None
    """Return the offsets of documents. `tokenmill.open` can map formats that define it."""
    offsets_role: str = "offsets"
    """The role of the file that `map_offsets` reads."""
    head_bytes: int = 0
    """Bytes before the values in the files of tokens and columns."""
    read_table: Callable[[Path], Iterator[Items]] | None = None
    """Yield the items of a file of role `table`, for formats that cannot be mapped."""
    dtypes: tuple[str, ...] = DTYPES
    u16_vocabulary: int = 1 << 16
    """The largest vocabulary that its readers take as u16."""
    holds_columns: bool = True
    """True if it can store any column. Every format can store a loss mask."""
    document_columns: bool = False
    """True if documents can have columns, not only rows."""
    extra_files: tuple[str, ...] = ()
    """Files in the dataset's own directory that its readers require."""
    finish: Callable[[Path, Manifest], None] | None = None
    """Write the files of `extra_files`. Called before the manifest is published."""
    split_list: str | None = None
    """The file that lists the datasets in a directory of splits."""

    @property
    def readable(self) -> bool:
        """True if Tokenmill can read the format back."""
        return self.map_offsets is not None or self.read_table is not None

    def choose_dtype(self, dtype: str, vocab_size: int) -> str:
        """Resolve `auto` to the narrowest type that holds every id and that readers of the format accept."""
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
        """Raise `ConfigError` if the format cannot store one of the columns."""
        lost = [name for name in columns if not self.holds_columns and name != LOSS_MASK]
        if lost:
            others = ", ".join(other.name for other in list_formats() if other.holds_columns)
            raise ConfigError(
                f"the format {self.name} holds token ids and a loss mask only, not {', '.join(lost)}: leave "
                f"columns out, or write one of {others}"
            )


def find_format(name: str) -> Format:
    """Return the format of that name, or raise `DatasetError`."""
    if name not in MODULES:
        raise DatasetError(
            f"{name!r} is not an output format; the formats are {', '.join(MODULES)}. "
            "A newer tokenmill may know it: pip install --upgrade tokenmill"
        )
    found: Format = getattr(import_module(f"tokenmill.datasets.formats.{MODULES[name]}"), name.upper())
    return found


def list_formats() -> tuple[Format, ...]:
    """Return all formats, importing their modules."""
    return tuple(find_format(name) for name in MODULES)
