"""Inputs as the user names them (paths, globs, directories, URLs) to a sorted list of files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.near import near_paths
from tokenmill.errors import ConfigError, InputError, InputNotFoundError
from tokenmill.sources import hf_directory, hub, small_files
from tokenmill.sources.formats import FORMATS
from tokenmill.sources.identify import identify
from tokenmill.sources.raw import local_identity, remote_identity, retry
from tokenmill.sources.stores import first_line, is_remote, open_filesystem, remote_errors
from tokenmill.sources.walking import MAGIC, Wish, expand, is_wanted, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.model import InputFile

_LONGEST_SHOWN = 120
# Files whose first bytes are held at once.
_TOGETHER = 128


def discover(config: SourceConfig, output: str | None = None) -> list[InputFile]:
    """Every file that `config.inputs` names, once, sorted by its name.

    What is below `output` is left out where a folder or a pattern brings it: a job that is run again must not
    read what it wrote.

    >>> from pathlib import Path
    >>> from tokenmill.settings.schema import SourceConfig
    >>> _ = Path("a.jsonl").write_text('{"text": "hello"}')
    >>> [(file.format, file.size) for file in discover(SourceConfig(inputs=("*.jsonl",)))]
    [('jsonl', 17)]
    """
    if not config.inputs:
        raise InputNotFoundError("no inputs were given: name files, directories, globs or URLs")
    found: dict[str, InputFile] = {}
    mine = None if output is None or is_remote(output) else os.path.realpath(output)
    for name in config.inputs:
        for file in _find(name, config, mine):
            found.setdefault(f"{file.split or ''}\0{file.url}", file)
    files = sorted(found.values(), key=lambda file: (file.split or "", file.url))
    return keep_split(files, config.split)


def _find(name: str, config: SourceConfig, mine: str | None) -> Iterator[InputFile]:
    """The files that one name stands for."""
    if hub.is_whole(name) or (not is_remote(name) and hub.looks_like_name(name)):
        places = hub.locate(name, config)
        # A dataset of one split is that split; of several, each becomes a dataset, as from a DatasetDict.
        several = len({split for _, split in places}) > 1
        for place, split in places:
            if config.split in {None, split} or not several:
                files = _find_remote(place, config) if is_remote(place) else [_identify_path(place, config)]
                yield from (replace(file, split=split if several else None) for file in files)
    elif is_remote(name):
        yield from _find_remote(name, config)
    else:
        yield from _find_local(name, config, mine)


def keep_split(files: list[InputFile], split: str | None) -> list[InputFile]:
    """The files of a split, and those that belong to none; all if no split is asked for."""
    if split is None:
        return files
    kept = [file for file in files if file.split in {split, None}]
    if not kept:
        known = sorted({file.split for file in files if file.split})
        raise InputNotFoundError(f"no split {split!r} in the inputs; they have {', '.join(known)}")
    return kept


def _find_local(name: str, config: SourceConfig, mine: str | None) -> Iterator[InputFile]:
    path = os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 - keeps a glob's characters
    if os.path.isdir(path):  # noqa: PTH112
        if os.path.realpath(path) == mine:
            raise ConfigError(
                f"{path} is both an input and the output, so a second run would read what the first one "
                "wrote; name another output, which may be a folder below it"
            )
        yield from _find_in_directory(path, config, mine)
    elif os.path.exists(path):  # noqa: PTH110
        yield _identify_path(path, config)
    elif MAGIC & set(path):
        # What a pattern ends with is looked for in every folder below, as the shell does.
        root, *parts = Path(path).parts
        matches = sorted(set(expand(root, [*parts, "*"] if parts[-1] == "**" else parts, Wish(config, mine))))
        if not matches:
            raise _explain_absence(name, "the pattern matches nothing")
        for match in matches:
            if os.path.isdir(match):  # noqa: PTH112
                if hf_directory.is_saved(match):
                    yield from _find_in_directory(match, config, mine)
            else:
                yield _identify_path(match, config)
    elif os.path.islink(path):  # noqa: PTH114
        raise InputNotFoundError(f"{path} is a link to {os.readlink(path)}, where there is no file")  # noqa: PTH115
    else:
        raise _explain_absence(name, "no such file or directory")


def _explain_absence(name: str, problem: str) -> InputNotFoundError:
    """The error for a missing path; a document given instead of a path is not printed whole."""
    shown = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…"
    text = len(name) > 4096 or "\n" in name or name.count(" ") > 5
    hint = (
        "; this looks like a text, not a path: pass texts as dataset=[...] to prepare, iter(texts) to train"
    )
    near = [] if text or MAGIC & set(name) else near_paths(Path(name))
    meant = f"; did you mean {' or '.join(map(str, near))}?" if near else ""
    return InputNotFoundError(f"{shown!r}: {problem} (from {Path.cwd()}){hint if text else meant}")


def _identify_path(
    path: str, config: SourceConfig, *, split: str | None = None, saved: bool = False
) -> InputFile:
    stat = retry(path, lambda: os.stat(path))  # noqa: PTH116
    return identify(path, stat.st_size, local_identity(stat), config, split=split, saved=saved)


def _find_in_directory(path: str, config: SourceConfig, mine: str | None) -> Iterator[InputFile]:
    if hf_directory.is_saved(path):
        for split, member in hf_directory.list_members(path):
            yield _identify_path(member, config, split=split, saved=True)
        return
    names = sorted(walk(path, Wish(config, mine)))
    if not names:
        known = ", ".join(sorted(suffix for kind in FORMATS.values() for suffix in kind.suffixes))
        raise InputNotFoundError(
            f"{path}: no file in this directory has a known name ({known}, each may be compressed)"
        )
    yield from _identify_all(names, config)


def _identify_all(names: list[str], config: SourceConfig) -> Iterator[InputFile]:
    """Files one after another, their first bytes read for many at once."""
    for first in range(0, len(names), _TOGETHER):
        for name, found in small_files.read_starts(names[first : first + _TOGETHER]):
            if found is None:
                yield _identify_path(name, config)
            else:
                yield identify(name, found.size, found.identity, config, start=found.data)


def _find_remote(name: str, config: SourceConfig) -> Iterator[InputFile]:
    system, path = open_filesystem(name)
    scheme = name.partition("://")[0]
    system.invalidate_cache()
    try:
        infos = _list_remote(system, path, config)
    except FileNotFoundError as error:
        raise InputNotFoundError(f"{name}: does not exist") from error
    except remote_errors() as error:
        raise InputError(
            f"{name}: cannot be listed: {first_line(error)}. Check the address and the credentials"
        ) from error
    if not infos:
        raise InputNotFoundError(f"{name}: no file there is in a known format")
    for info in sorted(infos, key=lambda info: str(info["name"])):
        url = system.unstrip_protocol(info["name"]) if scheme not in {"http", "https"} else str(info["name"])
        yield identify(url, int(info["size"] or 0), remote_identity(info), config)


def _list_remote(system: Any, path: str, config: SourceConfig) -> list[dict[str, Any]]:
    if MAGIC & set(path):
        listed = system.glob(path, detail=True)
        return [info for info in listed.values() if info["type"] == "file"]
    info = system.info(path)
    if info["type"] == "file":
        return [info | {"name": path}]
    found = system.find(path, detail=True).values()
    return [info for info in found if is_wanted(str(info["name"]).rpartition("/")[2], config)]
