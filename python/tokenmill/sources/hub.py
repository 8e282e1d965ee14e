"""Datasets on the Hugging Face hub by name: which of their files are meant, pinned to one revision.

`ORG/NAME` and `hf://datasets/ORG/NAME[@REVISION]` become URLs of single files at a commit, so that what is
read, and what the manifest keeps, cannot move. Offline, the files of the hub's own cache are taken.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import InputNotFoundError, InputUnavailableError, explain_missing
from tokenmill.sources.sniff import parse_name
from tokenmill.sources.stores import first_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenmill.settings.schema import SourceConfig

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_URL = re.compile(r"hf://datasets/([A-Za-z0-9][\w.-]*/[\w.-]+)(?:@([^/]+(?:/convert/parquet)?))?/?")
# Where the hub keeps what it made of datasets that have no Parquet of their own.
CONVERTED = "refs/convert/parquet"


def looks_like_name(name: str) -> bool:
    """Return True for `org/name` without a suffix of a format."""
    return bool(NAME.fullmatch(name)) and parse_name(name).format is None


def is_whole(url: str) -> bool:
    """Whether a URL is a dataset of the hub and not one file or a pattern in it."""
    return bool(_URL.fullmatch(url)) and not set("*?[") & set(url)


def locate(name: str, config: SourceConfig) -> list[tuple[str, str | None]]:
    """Every file that is meant, as `(URL or path, split)`."""
    found = _URL.fullmatch(name)
    repo, revision = (found[1], found[2] or config.revision) if found else (name, config.revision)
    with explain_missing("huggingface_hub", "hf", f"{name}: a dataset of the hub"):
        from huggingface_hub import HfApi, is_offline_mode
    if is_offline_mode():
        return _find_in_cache(repo, revision, config, "HF_HUB_OFFLINE is set")
    try:
        info = HfApi().dataset_info(repo, revision=revision)
        files, converted = [each.rfilename for each in info.siblings or ()], False
        if not any(path.endswith(".parquet") for path in files):
            files, info, converted = _find_converted(repo, files, info)
    except Exception as error:  # noqa: BLE001 - the client's own classes, told apart by their names
        return _explain_or_find_in_cache(repo, revision, config, error)
    configs = _read_configs(info, converted=converted)
    picked = pick(repo, files, configs, config)
    return [(f"hf://datasets/{repo}@{info.sha}/{path}", split) for path, split in picked]


def _find_converted(repo: str, files: list[str], info: Any) -> tuple[list[str], Any, bool]:
    """The hub's own conversion to Parquet, if there is one; else what the dataset has that we read."""
    from huggingface_hub import HfApi

    try:
        made = HfApi().dataset_info(repo, revision=CONVERTED)
    except Exception:  # noqa: BLE001 - no such branch: then its own files, whatever they are
        return files, info, False
    return [each.rfilename for each in made.siblings or ()], made, True


def _read_configs(info: Any, *, converted: bool) -> list[dict[str, Any]]:
    """What the dataset's card says of its subsets and splits."""
    card = info.card_data
    found = None if card is None else card.to_dict().get("configs")
    return [] if converted or not isinstance(found, list) else found


def pick(
    repo: str, files: Iterable[str], configs: list[dict[str, Any]], config: SourceConfig
) -> list[tuple[str, str | None]]:
    """The files of a subset and a split: as the card says, else by the names of folders and files."""
    known = [path for path in files if _holds_data(path)]
    parquet = [path for path in known if path.endswith(".parquet")]
    named = _pick_by_card(parquet or known, configs, config) or _pick_by_name(parquet or known, config)
    if config.subset is not None and not named:
        subsets = sorted(
            {path.split("/")[0] for path in parquet or known if "/" in path}
            | {str(each.get("config_name")) for each in configs}
        )
        raise InputNotFoundError(
            f"{repo}: no subset {config.subset!r}\nit has {', '.join(subsets) or 'none'}\npass --subset NAME"
        )
    if not named:
        raise InputNotFoundError(
            f"{repo}: the dataset has no Parquet files, and none in any other format that is read here\n"
            "its owner can let the hub convert it (datasets with a loading script cannot be converted)\n"
            f"or save it yourself: datasets.load_dataset({repo!r}).save_to_disk('DIR'), then prepare DIR"
        )
    return sorted(named)


def _holds_data(path: str) -> bool:
    """Whether a file may hold documents: one of a known kind that is not there for people or for git."""
    name = path.rpartition("/")[2]
    return (
        parse_name(name).format is not None and not name.startswith(".") and not name.endswith((".md", ".py"))
    )


def _pick_by_card(
    files: list[str], configs: list[dict[str, Any]], config: SourceConfig
) -> list[tuple[str, str | None]]:
    wanted = [each for each in configs if config.subset in {None, each.get("config_name")}]
    default = [each for each in wanted if each.get("default") or each.get("config_name") == "default"]
    picked: list[tuple[str, str | None]] = []
    for each in (default or wanted)[:1]:
        listed = each.get("data_files")
        entries = [{"split": "train", "path": listed}] if isinstance(listed, str) else listed or []
        for entry in entries:
            patterns = entry.get("path") if isinstance(entry, dict) else entry
            split = entry.get("split") if isinstance(entry, dict) else "train"
            for pattern in [patterns] if isinstance(patterns, str) else patterns or []:
                picked += [(path, split) for path in files if fnmatchcase(path, pattern)]
    return list(dict.fromkeys(picked))


def _pick_by_name(files: list[str], config: SourceConfig) -> list[tuple[str, str | None]]:
    """`data/train-00000-of-2.parquet`, `NAME/train/0000.parquet`: a subset is a folder, a split a word."""
    if config.subset is not None:
        files = [
            path
            for path in files
            if config.subset in path.split("/")[:-1] or path.startswith(f"{config.subset}-")
        ]
    else:
        folders = {path.split("/")[0] for path in files if path.count("/") >= 2}
        if "default" in folders:
            files = [path for path in files if path.startswith("default/")]
    return [(path, _guess_split(path)) for path in files]


def _guess_split(path: str) -> str | None:
    words = [word for part in reversed(path.split("/")) for word in re.split(r"[-_.]", part)]
    usual = {
        "train": "train",
        "test": "test",
        "validation": "validation",
        "valid": "validation",
        "dev": "validation",
        "val": "validation",
    }
    return next((usual[word] for word in words if word in usual), None)


def _find_in_cache(
    repo: str, revision: str | None, config: SourceConfig, why: str
) -> list[tuple[str, str | None]]:
    """The files of the hub's own cache, where it has the whole dataset."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repo, repo_type="dataset", revision=revision, local_files_only=True))
    except Exception as error:
        raise InputUnavailableError(
            f"{repo}: not in the hub's cache, and the hub cannot be reached ({why})\n"
            f"go online, or download it where there is a network: hf download {repo} --repo-type dataset\n"
            "or give the path of its files"
        ) from error
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return [(str(folder / path), split) for path, split in pick(repo, files, [], config)]


def _explain_or_find_in_cache(
    repo: str, revision: str | None, config: SourceConfig, error: Exception
) -> list[tuple[str, str | None]]:
    """What is left when the hub refuses: the cache if it did not answer, else an error with the remedy."""
    kind = type(error).__name__
    if kind == "GatedRepoError":
        raise InputUnavailableError(
            f"{repo}: the dataset is gated, and your account may not read it yet\n"
            f"ask for access on its page, then log in: hf auth login (or set HF_TOKEN)\n"
            f"(the hub said: {first_line(error)})"
        ) from error
    if kind == "RevisionNotFoundError":
        raise InputNotFoundError(
            f"{repo}: no revision {revision!r}\n"
            "a revision is a branch, a tag or a commit; leave it out for the newest\n"
            f"(the hub said: {first_line(error)})"
        ) from error
    if kind in {"RepositoryNotFoundError", "HFValidationError"}:
        raise InputNotFoundError(
            f"{repo}: no such file or folder, and no such dataset on the hub that you may read\n"
            "check the spelling; a private one needs your token: hf auth login, or set HF_TOKEN\n"
            f"(the hub said: {first_line(error)})"
        ) from error
    return _find_in_cache(repo, revision, config, f"{kind}: {first_line(error)}")
