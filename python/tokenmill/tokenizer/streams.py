"""Read texts for `tokenmill encode`, and count their ids in bounded memory."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tokenmill.base.machine import default_threads
from tokenmill.base.texts import prefetch
from tokenmill.errors import InputError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import Block, Range, infer_fields, read_blocks
from tokenmill.sources.discover import identify_path
from tokenmill.sources.read import SMALL
from tokenmill.sources.records import BOM
from tokenmill.sources.sniff import parse_name
from tokenmill.tokenizer.engines.backend import Special
from tokenmill.tokenizer.engines.native import cut_parts
from tokenmill.tokenizer.tokenizer import Tokenizer

_BLOCK_BYTES = 1 << 20


def _has_records(name: str) -> bool:
    """Return True for a compressed file and a format of records; any other file is a text."""
    named = parse_name(name)
    return named.compression is not None or named.format not in {None, "txt", "json"}


def _open(name: str, source: SourceConfig, *, parts: bool = False) -> tuple[bool, Iterator[Block]]:
    """Return True if a file is one text, and its blocks; with `parts`, a block may be a part of the text."""
    config = replace(source, format="auto" if source.format == "auto" and _has_records(name) else "txt")
    file = identify_path(name, config)
    config, _ = infer_fields(config, [file])
    whole = Range("file", 0, file.size, file.size)
    return file.txt_mode == "file", read_blocks(file, whole, config, block_bytes=_BLOCK_BYTES, parts=parts)


def read_documents(name: str, source: SourceConfig) -> Iterator[str | bytes]:
    """Yield the documents of a file as `prepare` reads them, or those of standard input (`-`)."""
    if name != "-":
        yield from (text for block in _open(name, source)[1] for text in block.texts)
    elif source.txt_mode == "line":
        yield from (line.removesuffix(b"\n") for line in sys.stdin.buffer)
    else:
        yield sys.stdin.buffer.read()


def count_file(
    tokenizer: Tokenizer, name: str, source: SourceConfig, special: Special, *, template: bool
) -> int:
    """Return the number of ids of a file, or of standard input (`-`), in bounded memory, with all threads."""
    options: Any = {"special": special, "add_special_tokens": template}
    try:
        if name == "-":
            return _count_text(tokenizer, iter(partial(sys.stdin.buffer.read, _BLOCK_BYTES), b""), **options)
        if source.txt_mode == "file" and not _has_records(name) and Path(name).stat().st_size <= SMALL:
            return len(tokenizer.encode(Path(name).read_bytes().removeprefix(BOM), **options))
        is_text, blocks = _open(name, source, parts=True)
        if is_text:
            return _count_text(tokenizer, (block.texts.data for block in blocks), **options)
        return sum(int(tokenizer.count_batch(block.texts, **options).sum()) for block in prefetch(blocks))
    except InputError as error:
        raise error if name in str(error) else InputError(f"{name}: {error}") from None


def _count_text(
    tokenizer: Tokenizer, blocks: Iterable[Any], special: Special, *, add_special_tokens: bool
) -> int:
    """Return the number of ids of a text; one whose tokenizer has no known cuts is held whole."""
    added = tokenizer.count("", special=special, add_special_tokens=add_special_tokens)
    codec: Any = getattr(tokenizer.engine, "codec", None)
    if codec is None or not codec.can_cut:
        return added + tokenizer.count(b"".join(blocks), special=special)
    total, threads = added, default_threads()
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for nth, part in enumerate(cut_parts(codec, blocks)):
            waiting.append(pool.submit(codec.encode_part, part, special, nth > 0))
            if len(waiting) > 2 * threads:
                total += len(waiting.popleft().result())
        return total + sum(len(future.result()) for future in waiting)
