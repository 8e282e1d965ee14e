"""The files below a folder, and those that a pattern matches, as their names tell.

Links to folders are followed, since a corpus is often put together of them. A folder is walked once, whatever
the number of links to it: its documents would be there twice, or a link to a folder above would never end.
"""

from __future__ import annotations

import logging
import os
from fnmatch import fnmatchcase
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from tokenmill.sources.detect import parse_name
from tokenmill.sources.faults import FileFaultError
from tokenmill.sources.raw import retry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.settings.schema import SourceConfig

logger = logging.getLogger("tokenmill.sources")
MAGIC = frozenset("*?[")


class Wish(NamedTuple):
    """What is looked for, and the job's own output, if that is local: nothing below it is an input."""

    config: SourceConfig
    output: str | None


def walk(path: str, wish: Wish) -> Iterator[str]:
    """Every file below a folder whose name is that of a known format and not hidden."""
    seen: set[tuple[int, int]] = set()
    waiting = [path]
    while waiting:
        # Links come after all real folders, which have the better names for what is in them.
        links: list[str] = []
        yield from _walk(heappop(waiting), wish, seen, links)
        for link in links:
            heappush(waiting, link)


def _walk(folder: str, wish: Wish, seen: set[tuple[int, int]], links: list[str]) -> Iterator[str]:
    if (known := _identify(folder)) in seen:
        return
    seen.add(known)
    for entry in _list_entries(folder, wish):
        if _is_folder(entry):
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                links.append(entry.path)
            else:
                yield from _walk(entry.path, wish, seen, links)
        elif not entry.name.startswith((".", "_")) and is_wanted(entry.name, wish.config):
            yield entry.path


def expand(
    folder: str, parts: list[str], wish: Wish, above: frozenset[tuple[int, int]] = frozenset()
) -> Iterator[str]:
    """The paths below `folder` that a pattern matches; `**` is any number of folders that are not hidden.

    `above` are the folders that `**` has stood for so far: a link to one of them is not followed.
    """
    if not parts:
        yield folder
        return
    first, rest = parts[0], parts[1:]
    if not MAGIC & set(first):
        path = os.path.join(folder, first)  # noqa: PTH118
        if os.path.lexists(path):
            yield from expand(path, rest, wish)
        return
    if first == "**":
        if (known := _identify(folder)) in above:
            return
        above |= {known}
        yield from expand(folder, rest, wish)
    for entry in _list_entries(folder, wish):
        hidden = entry.name.startswith(".") and not first.startswith(".")
        if hidden or not fnmatchcase(entry.name, first) or (rest and not _is_folder(entry)):
            continue
        yield from expand(entry.path, *((parts, wish, above) if first == "**" else (rest, wish)))


def is_wanted(name: str, config: SourceConfig) -> bool:
    """Whether a file of that name is read when its folder is named."""
    known = parse_name(name).format
    return known is not None and config.format in {"auto", known, "hf"}


def _identify(folder: str) -> tuple[int, int]:
    status = retry(folder, lambda: os.stat(folder))  # noqa: PTH116
    return status.st_dev, status.st_ino


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself; reading it says so
        return False


def _list_entries(folder: str, wish: Wish) -> list[os.DirEntry[str]]:
    """What is in a folder. One that cannot be listed would silently take its files out of the job."""
    if wish.output is not None and os.path.realpath(folder) == wish.output:
        return []

    def look() -> list[os.DirEntry[str]]:
        with os.scandir(folder) as entries:
            return list(entries)

    try:
        return retry(folder, look)
    except FileFaultError as error:
        if wish.config.on_error == "fail":
            raise
        logger.warning("%s; its files are left out", error)
        return []
