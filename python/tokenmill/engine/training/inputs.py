"""What to train on: paths and globs through the sources, anything else as texts in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from tokenmill.base.errors import ConfigError, InputNotFoundError
from tokenmill.engine.training.texts import blocks_of
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import discover, ranges, read_blocks, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tokenmill.sources import Block, InputFile

RANGE_BYTES = 256 << 20
# Small enough to be still in the cache when it is counted.
BLOCK_BYTES = 1 << 20


@dataclass(slots=True)
class Corpus:
    """Texts in blocks, with what is known of their size before they are read."""

    texts: Any = None
    files: list[InputFile] = field(default_factory=list)
    source: SourceConfig = field(default_factory=SourceConfig)
    refused: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def total_bytes(self) -> int | None:
        """Bytes to read, if every file is plain; a compressed one does not tell."""
        if self.texts is not None or any(file.compression for file in self.files):
            return None
        return sum(file.size for file in self.files)

    def readers(self, threads: int) -> int:
        """How many threads may take blocks; an iterable of the caller's is only touched by the caller's."""
        return 1 if self.texts is not None else threads

    def identity(self) -> list[dict[str, Any]]:
        """Which inputs these are, for provenance and for resuming."""
        if self.texts is not None:
            return [{"texts": type(self.texts).__name__}]
        return [{"url": file.url, "size": file.size, "identity": file.identity} for file in self.files]

    def blocks(self) -> Iterator[pa.LargeStringArray]:
        """All texts, in order."""
        if self.texts is not None:
            yield from blocks_of(self.texts)
            return
        for block in self._read():
            for reason, count in block.refused.items():
                self.refused[reason] = self.refused.get(reason, 0) + count
            yield block.texts.to_arrow()

    def _read(self) -> Iterator[Block]:
        for file in self.files:
            for part in ranges(file, RANGE_BYTES):
                yield from read_blocks(file, part, self.source, block_bytes=BLOCK_BYTES)


def corpus_of(inputs: Any, source: dict[str, Any]) -> Corpus:
    """A path or a list of paths names files; any other iterable, Arrow array or dataset gives texts."""
    paths = _paths(inputs)
    if paths is None:
        return Corpus(texts=inputs)
    if not paths:
        return Corpus()
    config = SourceConfig(inputs=tuple(paths), **source)
    try:
        files = discover(config)
    except InputNotFoundError as error:
        hint = "; to train on texts in memory, pass an iterator: iter(texts)"
        raise InputNotFoundError(f"{error}{hint if isinstance(inputs, list | tuple) else ''}") from error
    config, notes = settle(config, files)
    return Corpus(files=files, source=config, notes=notes)


def _paths(inputs: Any) -> list[str] | None:
    if inputs is None:
        return []
    if isinstance(inputs, str | PathLike):
        return [str(fspath(inputs))]
    if isinstance(inputs, list | tuple):
        if not all(isinstance(item, str | PathLike) for item in inputs):
            raise ConfigError(
                "a list of inputs names files; pass texts in memory as an iterator: iter(texts)"
            )
        return [str(fspath(item)) for item in inputs]
    return None
