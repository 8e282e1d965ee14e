"""What a vocabulary is trained on: files, or data in memory, both as blocks of the sources."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from tokenmill.errors import ConfigError, InputNotFoundError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import cut_ranges, discover, read_blocks, settle
from tokenmill.sources.discover import keep_split
from tokenmill.sources.faults import explain_refusal
from tokenmill.sources.model import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.sources import Block, InputFile

RANGE_BYTES = 256 << 20
# Small enough to be still in the cache when it is counted.
BLOCK_BYTES = 1 << 20
# The caller's objects are touched by one thread, so several count each block together.
MEMORY_BLOCK_BYTES = 8 << 20


@dataclass(slots=True)
class Corpus:
    """Documents in blocks, with what is known of them before they are read."""

    files: list[InputFile] = field(default_factory=list)
    source: SourceConfig = field(default_factory=SourceConfig)
    notes: list[str] = field(default_factory=list)

    @property
    def in_memory(self) -> bool:
        """Whether the documents are the caller's objects."""
        return any(file.format == MEMORY for file in self.files)

    @property
    def total_bytes(self) -> int | None:
        """Bytes to read; None if a file is compressed or the documents are objects, which do not say."""
        if self.in_memory or any(file.compression for file in self.files):
            return None
        return sum(file.size for file in self.files)

    def count_readers(self, threads: int) -> int:
        """How many threads may take blocks; only the caller's own thread touches the caller's objects."""
        return 1 if self.in_memory else threads

    def identify(self) -> list[dict[str, Any]]:
        """Which inputs these are, for provenance and for resuming."""
        if self.in_memory:
            return [{"memory": file.split or "data", "identity": file.identity} for file in self.files]
        return [{"url": file.url, "size": file.size, "identity": file.identity} for file in self.files]

    def read_blocks(self, *, parts: bool = False) -> Iterator[Block]:
        """All documents, in order, with what was refused; with `parts`, a large one may come in several."""
        if self.in_memory:
            yield from self._read_memory()
            return
        for file in self.files:
            for part in cut_ranges(file, RANGE_BYTES):
                yield from read_blocks(file, part, self.source, block_bytes=BLOCK_BYTES, parts=parts)

    def _read_memory(self) -> Iterator[Block]:
        """As `read_blocks`; a missing value is not damage, but skipped and counted whatever the policy."""
        lenient = replace(self.source, on_error="skip") if self.source.on_error == "fail" else self.source
        for file in self.files:
            for part in cut_ranges(file, RANGE_BYTES):
                for block in read_blocks(file, part, lenient, block_bytes=MEMORY_BLOCK_BYTES):
                    bad = [reject for reject in block.rejects if reject.reason != "missing_field"]
                    if bad and self.source.on_error == "fail":
                        raise explain_refusal(bad[0])
                    yield block


@contextmanager
def open_corpus(inputs: Any, source: SourceConfig, output: str | None = None) -> Iterator[Corpus]:
    """A path or a list of paths names files; any other iterable, Arrow data or data set is the documents.

    What is below `output` is none of the files that a folder or a pattern stands for.
    """
    paths = _list_paths(inputs)
    config = replace(source, inputs=tuple(paths or ()))
    if paths is None:
        from tokenmill.sources.memory import attach  # which brings Arrow along

        with attach(inputs, hashed=False) as files:
            yield _settle_corpus(config, keep_split(files, config.split))
    elif not paths:
        yield Corpus()
    else:
        try:
            found = discover(config, output)
        except InputNotFoundError as error:
            if isinstance(inputs, list | tuple) and "iter(texts)" not in str(error):
                raise InputNotFoundError(f"{error}; a list names files: pass texts as iter(texts)") from None
            raise
        yield _settle_corpus(config, found)


def _settle_corpus(config: SourceConfig, files: list[InputFile]) -> Corpus:
    config, notes = settle(config, files)
    return Corpus(files, config, notes)


def _list_paths(inputs: Any) -> list[str] | None:
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
