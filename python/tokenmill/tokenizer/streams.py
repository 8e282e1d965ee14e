"""Texts that are read in blocks: cut where their ids do not change, and counted in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, BinaryIO

from tokenmill.base.machine import default_threads
from tokenmill.errors import InputError
from tokenmill.tokenizer.engines.backend import Special
from tokenmill.tokenizer.tokenizer import Tokenizer

# Bytes gathered before a cut is searched for: large enough that the search is rare.
_BLOCK = 1 << 18


def cut_parts(codec: Any, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield parts of a UTF-8 text that end where it can be cut, then the rest, which may be empty."""
    held: list[bytes] = []
    size, wanted = 0, _BLOCK
    for block in blocks:
        held.append(block)
        size += len(block)
        if size < wanted:
            continue
        joined = b"".join(held)
        # The last character may be incomplete.
        whole = next((at for at in range(size - 1, max(size - 5, 0), -1) if joined[at] & 0xC0 != 0x80), size)
        cut = codec.last_cut(memoryview(joined)[:whole])
        if cut:
            yield joined[:cut]
        held, size = [joined[cut:]], size - cut
        # Without a cut, wait until the text has doubled: the search stays linear in the whole.
        wanted = max(_BLOCK, 2 * size)
    yield b"".join(held)


def count_files(
    tokenizer: Tokenizer,
    files: Iterable[tuple[str, AbstractContextManager[BinaryIO]]],
    special: Special,
    *,
    template: bool,
) -> Iterator[int]:
    """Yield the number of ids of each open file, which is one text.

    Parts of a file are encoded in parallel. A tokenizer without known cuts encodes one whole file at a time.
    """
    codec: Any = getattr(tokenizer.engine, "codec", None)
    cuts = codec is not None and codec.can_cut
    added = tokenizer.count("x", add_special_tokens=True) - tokenizer.count("x") if template else 0
    threads = default_threads()

    def count(name: str, part: bytes, offset: int) -> int:
        try:
            if cuts:
                return len(codec.encode_part(part, special, offset > 0))
            return tokenizer.count(part, special=special)
        except InputError as error:
            raise InputError(f"{name}, from byte {offset} on: {error}") from None

    with ThreadPoolExecutor(threads) as pool:
        for name, opened in files:
            total, offset = added, 0
            waiting: deque[Future[int]] = deque()
            with opened as file:
                blocks = iter(partial(file.read, 4 * _BLOCK), b"")
                for part in cut_parts(codec, blocks) if cuts else [b"".join(blocks)]:
                    waiting.append(pool.submit(count, name, part, offset))
                    offset += len(part)
                    if len(waiting) > 2 * threads:
                        total += waiting.popleft().result()
            yield total + sum(future.result() for future in waiting)
