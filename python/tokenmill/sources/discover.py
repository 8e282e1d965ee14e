"""Resolve inputs (paths, globs, directories, URLs, datasets on the Hub) to a sorted list of files.

Links to directories are followed. Each directory is walked once, so that several links to it do not duplicate
its documents, and a link to a parent directory does not cause an endless walk.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from tokenmill.base.words import suggest_paths
from tokenmill.errors import (
    ConfigError,
    InputError,
    InputNotFoundError,
    InputUnavailableError,
    explain_missing,
)
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources.model import InputFile
from tokenmill.sources.raw import local_identity, remote_identity, retry
from tokenmill.sources.sniff import SUFFIXES, identify, parse_name
from tokenmill.sources.stores import first_line, is_remote, open_filesystem, remote_errors

_LONGEST_SHOWN = 255
_MAGIC = frozenset("*?[")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_HUB_URL = re.compile(rf"hf://datasets/({HUB_NAME.pattern})(?:@([^/]+(?:/convert/parquet)?))?/?")
# The branch with the hub's Parquet conversion of a dataset, which has a folder for each subset.
_CONVERTED = "refs/convert/parquet"
# Files of a directory that `datasets.save_to_disk` wrote.
STATE, SPLITS = "state.json", "dataset_dict.json"


def discover(config: SourceConfig, output: str | None = None) -> list[InputFile]:
    """Return every file of `config.inputs` once, sorted by split and URL.

    Files below `output` that a directory or a pattern includes are left out, so that a job that is run again
    does not read its own output.

    >>> from pathlib import Path
    >>> from tokenmill.settings.schema import SourceConfig
    >>> _ = Path("a.jsonl").write_text('{"text": "hello"}')
    >>> [(file.format, file.size) for file in discover(SourceConfig(inputs=("*.jsonl",)))]
    [('jsonl', 17)]
    """
    if not config.inputs:
        raise InputNotFoundError("no inputs were given: name files, directories, globs or URLs")
    found: dict[str, InputFile] = {}
    kept = None if output is None or is_remote(output) else os.path.realpath(output)
    for name in config.inputs:
        for file in _find(name, config, kept):
            found.setdefault(f"{file.split or ''}\0{file.url}", file)
    files = sorted(found.values(), key=lambda file: (file.split or "", file.url))
    return keep_split(files, config.split)


def keep_split(files: list[InputFile], split: str | None) -> list[InputFile]:
    """Return the files of a split and those without one; all if `split` is None."""
    if split is None:
        return files
    kept = [file for file in files if file.split in {split, None}]
    if not kept:
        known = sorted({file.split for file in files if file.split})
        raise InputNotFoundError(f"no split {split!r} in the inputs; they have {', '.join(known)}")
    return kept


def _is_wanted(name: str, config: SourceConfig) -> bool:
    """Return True if a file of that name is read when its directory is given."""
    known = parse_name(name).format
    return known is not None and config.format in {"auto", known, "hf"}


def list_paths(name: str, output: str | None = None) -> Iterator[str]:
    """Yield the local paths of a name or a pattern; a pattern matches nothing below `output`."""
    path = os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111 - keeps a glob's characters
    if os.path.exists(path):  # noqa: PTH110
        yield path
    elif _MAGIC & set(path):
        # A final `**` matches files in every directory below, as in the shell.
        root, *parts = Path(path).parts
        matches = sorted(set(_expand(root, [*parts, "*"] if parts[-1] == "**" else parts, output)))
        if not matches:
            raise _explain_absence(name, "the pattern matches nothing")
        yield from matches
    else:
        raise _explain_absence(name, "no such file or directory")


def list_files(folder: str, output: str | None = None) -> Iterator[str]:
    """Yield the path of every file below a directory that is not hidden."""
    for path, _, names in _walk(folder, output):
        yield from (os.path.join(path, name) for name in names)  # noqa: PTH118


def _expand(folder: str, parts: list[str], output: str | None) -> Iterator[str]:
    """Yield the paths below a directory that match a pattern; `**` is any number of directories."""
    if not parts:
        yield folder
        return
    first, rest = parts[0], parts[1:]
    if first == "**":
        for path, _, _ in _walk(folder, output):
            yield from _expand(path, rest, output)
    elif _MAGIC & set(first):
        for path, folders, names in islice(_walk(folder, output), 1):
            for name in folders if rest else folders + names:
                if fnmatchcase(name, first):
                    yield from _expand(os.path.join(path, name), rest, output)  # noqa: PTH118
    elif os.path.lexists(path := os.path.join(folder, first)):  # noqa: PTH118
        yield from _expand(path, rest, output)


def _walk(folder: str, output: str | None) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield a directory and each visible one below it except `output`, once, with the names in it."""

    def refuse(error: OSError) -> None:
        raise InputError(
            f"{error.filename}: the directory cannot be listed: {error.strerror}. Its files would be "
            "missing; allow reading it, or name the inputs without it"
        ) from error

    seen = {output}
    for path, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if (real := os.path.realpath(path)) in seen:
            folders.clear()
            continue
        seen.add(real)
        yield path, folders, [name for name in names if not name.startswith(".")]


def _find(name: str, config: SourceConfig, output: str | None) -> Iterator[InputFile]:
    """Yield the files of one input name."""
    if _is_on_hub(name) and (is_remote(name) or not os.path.exists(name)):  # noqa: PTH110
        places = _locate_on_hub(name, config)
        # Each of several splits becomes a dataset, as with a `DatasetDict`.
        several = len({split for _, split in places}) > 1
        for place, split in places:
            if config.split in {None, split} or not several:
                files = _find_remote(place, config) if is_remote(place) else [identify_path(place, config)]
                yield from (replace(file, split=split if several else None) for file in files)
    elif is_remote(name):
        yield from _find_remote(name, config)
    else:
        own, skipped = os.path.abspath(os.path.expanduser(name)), list[str]()  # noqa: PTH100, PTH111
        for path in (paths := list(list_paths(name, output))):
            if not S_ISDIR(retry(path, partial(os.stat, path)).st_mode):  # `isdir` is False after a fault
                yield identify_path(path, config)
            elif any(os.path.exists(os.path.join(path, mark)) for mark in (SPLITS, STATE)):  # noqa: PTH110, PTH118
                yield from _find_saved(Path(path), config)
            elif path == own:
                yield from _find_in_directory(path, config, output)
            else:
                skipped.append(path)
        if skipped == paths:
            raise _explain_absence(name, "the pattern matches only directories; end it with /**")


def _find_in_directory(path: str, config: SourceConfig, output: str | None) -> Iterator[InputFile]:
    if os.path.realpath(path) == output:
        raise ConfigError(
            f"{path} is both an input and the output, so a second run would read what the first one "
            "wrote; name another output, which may be a folder below it"
        )
    found = ((file.rpartition(os.sep)[2], file) for file in list_files(path, output))
    names = sorted(file for name, file in found if name[0] != "_" and _is_wanted(name, config))
    if not names:
        known = ", ".join(sorted(suffix for suffixes in SUFFIXES.values() for suffix in suffixes))
        raise InputNotFoundError(
            f"{path}: no file in this directory has a known name ({known}, each may be compressed)"
        )
    yield from (identify_path(each, config) for each in names)


def _explain_absence(name: str, problem: str) -> InputNotFoundError:
    if "\n" in name or len(name) > _LONGEST_SHOWN:
        return InputNotFoundError(
            f"{name[:_LONGEST_SHOWN]!r}: {problem}; this looks like a text, not a path: use "
            "prepare(dataset=[...]) or train_from_iterator"
        )
    near = [] if _MAGIC & set(name) else suggest_paths(Path(name))
    meant = f"; did you mean {' or '.join(map(str, near))}?" if near else ""
    return InputNotFoundError(f"{name!r}: {problem} (from {Path.cwd()}){meant}")


def identify_path(path: str, config: SourceConfig, split: str | None = None) -> InputFile:
    """Return a local file with its format."""
    status = retry(path, lambda: os.stat(path))  # noqa: PTH116
    return replace(identify(path, status.st_size, local_identity(status), config), split=split)


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
            f"{name}: cannot be listed: {first_line(error)}. Check the address and the credentials "
            "(for an http AWS_ENDPOINT_URL, also set AWS_ALLOW_HTTP=true)"
        ) from error
    if not infos:
        raise InputNotFoundError(f"{name}: no file there is in a known format")
    for info in sorted(infos, key=lambda info: str(info["name"])):
        url = system.unstrip_protocol(info["name"]) if scheme not in {"http", "https"} else str(info["name"])
        yield identify(url, int(info["size"] or 0), remote_identity(info), config)


def _list_remote(system: Any, path: str, config: SourceConfig) -> list[dict[str, Any]]:
    if _MAGIC & set(path):
        listed = system.glob(path, detail=True)
        return [info for info in listed.values() if info["type"] == "file"]
    if (info := system.info(path))["type"] == "file":
        return [info | {"name": path}]
    found = system.find(path, detail=True).values()
    return [info for info in found if _is_wanted(str(info["name"]).rpartition("/")[2], config)]


def _find_saved(folder: Path, config: SourceConfig) -> Iterator[InputFile]:
    """Yield the Arrow files of a `Dataset` or `DatasetDict` saved with `save_to_disk`, with their splits."""
    found: list[tuple[str, str | None]] = []
    try:
        several = (folder / SPLITS).exists()
        for name in json.loads((folder / SPLITS).read_bytes())["splits"] if several else [""]:
            state = json.loads((folder / name / STATE).read_bytes())
            files = [str(folder / name / entry["filename"]) for entry in state["_data_files"]]
            found += [(file, name or state.get("_split")) for file in files]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{folder}: cannot be read as a dataset of save_to_disk: {error!r}") from error
    yield from (identify_path(file, config, split) for file, split in found)


def _is_on_hub(name: str) -> bool:
    """Return True for `org/name` without a suffix of a format, and for the URL of a whole dataset."""
    named = bool(HUB_NAME.fullmatch(name)) and parse_name(name).format is None
    return not _MAGIC & set(name) if _HUB_URL.fullmatch(name) else named


def _locate_on_hub(name: str, config: SourceConfig) -> list[tuple[str, str | None]]:
    """Return every file of a dataset on the hub as `(URL or path, split)`.

    URLs contain the commit, so that neither the data nor its URL in the manifest can change.
    """
    found = _HUB_URL.fullmatch(name)
    repo, revision = (found[1], found[2] or config.revision) if found else (name, config.revision)
    with explain_missing("datasets", "hf", f"{name}: a dataset of the hub"):
        import datasets  # noqa: F401
        from huggingface_hub import HfApi, errors, is_offline_mode, snapshot_download
    try:
        if is_offline_mode():
            folder = snapshot_download(repo, repo_type="dataset", revision=revision, local_files_only=True)
            return _list_hub_files(folder, None, config.subset)
        try:
            return _list_hub_files(repo, HfApi().dataset_info(repo, revision=revision).sha, config.subset)
        except RuntimeError:  # a loading script, or no format that is read here
            sha = HfApi().dataset_info(repo, revision=_CONVERTED).sha
            return _list_hub_files(repo, sha, config.subset or "default", by_folder=True)
    except Exception as error:
        absent = (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, FileNotFoundError, ValueError)
        raise (InputNotFoundError if isinstance(error, absent) else InputUnavailableError)(
            f"{repo}: no such file or folder, and no such dataset on the hub that can be read\n"
            "check the name, the revision and the subset; a private or gated dataset needs a token (hf auth "
            "login, or HF_TOKEN); without a network, set HF_HUB_OFFLINE=1 after: hf download "
            f"{repo} --repo-type dataset\n(the hub said: {' '.join(str(error).split())})"
        ) from error


def _list_hub_files(
    path: str, revision: str | None, subset: str | None, *, by_folder: bool = False
) -> list[tuple[str, str | None]]:
    """Return the data files of a subset: a configuration of the dataset's card, or else a folder."""
    from datasets import get_dataset_config_names, load_dataset_builder

    by_folder = by_folder or get_dataset_config_names(path, revision=revision) == ["default"]
    chosen = {"data_dir": subset} if by_folder else {"name": subset}
    builder = load_dataset_builder(path, revision=revision, **chosen)
    splits = (builder.config.data_files or {}).items()
    files = [(str(file), str(split)) for split, some in splits for file in some]
    readable = [(file, split) for file, split in files if parse_name(file).format is not None]
    if not readable:
        raise RuntimeError("it has no file in a format that is read here")
    return sorted(readable)
