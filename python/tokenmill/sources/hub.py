"""Datasets on the Hugging Face hub by name, as `datasets` resolves them, pinned to one revision.

`ORG/NAME` and `hf://datasets/ORG/NAME[@REVISION]` become URLs of single files at a commit, so that neither
the data nor its URL in the manifest can change. Offline, the files of the hub's own cache are used.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tokenmill.errors import InputNotFoundError, InputUnavailableError, explain_missing
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources.sniff import parse_name
from tokenmill.sources.stores import first_line

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_URL = re.compile(rf"hf://datasets/({NAME.pattern})(?:@([^/]+(?:/convert/parquet)?))?/?")
# The branch with the hub's Parquet conversion of a dataset.
_CONVERTED = "refs/convert/parquet"


def is_dataset(name: str) -> bool:
    """Return True for `org/name` without a suffix of a format, and for the URL of a whole dataset."""
    if _URL.fullmatch(name):
        return not set("*?[") & set(name)
    return bool(NAME.fullmatch(name)) and parse_name(name).format is None


def locate(name: str, config: SourceConfig) -> list[tuple[str, str | None]]:
    """Return every file of a dataset as `(URL or path, split)`."""
    found = _URL.fullmatch(name)
    repo, revision = (found[1], found[2] or config.revision) if found else (name, config.revision)
    with explain_missing("datasets", "hf", f"{name}: a dataset of the hub"):
        import datasets  # noqa: F401
        from huggingface_hub import HfApi, is_offline_mode
    if is_offline_mode():
        return _locate_in_cache(repo, revision, config, "HF_HUB_OFFLINE is set")
    try:
        info = HfApi().dataset_info(repo, revision=revision)
    except Exception as error:  # noqa: BLE001 - the client's own classes, distinguished by name
        _explain(repo, revision, error)
        return _locate_in_cache(repo, revision, config, f"{type(error).__name__}: {first_line(error)}")
    try:
        return _resolve(repo, repo, info.sha, config, _list_folders(info))
    except InputNotFoundError:
        raise
    except (FileNotFoundError, RuntimeError) as error:  # no data files, or a loading script
        try:
            info = HfApi().dataset_info(repo, revision=_CONVERTED)
        except Exception:  # noqa: BLE001 - no such branch
            raise InputNotFoundError(
                f"{repo}: the dataset has no Parquet files, and none in any other format that is read here\n"
                "its owner can let the hub convert it (datasets with a loading script cannot be converted)\n"
                f"or save it yourself: datasets.load_dataset({repo!r}).save_to_disk('DIR'), then prepare DIR"
            ) from error
        return _resolve(repo, repo, info.sha, config, _list_folders(info), converted=True)


def _list_folders(info: Any) -> list[str]:
    return sorted({each.rfilename.split("/")[0] for each in info.siblings or () if "/" in each.rfilename})


def _resolve(
    repo: str,
    path: str,
    sha: str | None,
    config: SourceConfig,
    folders: list[str],
    *,
    converted: bool = False,
) -> list[tuple[str, str | None]]:
    """Return the data files of a subset.

    A subset is a configuration of the dataset's card, or else one of its folders. Each folder of a dataset
    that was `converted` by the hub is a subset.
    """
    from datasets import get_dataset_config_names, load_dataset_builder

    names = folders if converted else get_dataset_config_names(path, revision=sha)
    subset = config.subset
    if subset is None and converted:
        subset = "default" if "default" in names else names[0] if len(names) == 1 else None
    by_folder = converted or names == ["default"]
    known = folders if by_folder else names
    if (subset is None and converted) or (subset is not None and subset not in {*known, *names}):
        raise _ask_for_subset(repo, subset, known)
    chosen = {"data_dir": subset} if by_folder and subset in folders else {"name": subset}
    try:
        builder = load_dataset_builder(path, revision=sha, **chosen)
    except ValueError as error:
        if subset is None and len(names) > 1:
            raise _ask_for_subset(repo, None, names) from error
        raise
    files = [(str(file), str(split)) for split, some in builder.config.data_files.items() for file in some]
    readable = [(file, split) for file, split in files if parse_name(file).format is not None]
    if not readable:
        raise FileNotFoundError(repo)
    return sorted(readable)


def _ask_for_subset(repo: str, subset: str | None, known: list[str]) -> InputNotFoundError:
    problem = "the dataset has several subsets" if subset is None else f"no subset {subset!r}"
    return InputNotFoundError(
        f"{repo}: {problem}\nit has {', '.join(known) or 'none'}\nset subset to one of them"
    )


def _locate_in_cache(
    repo: str, revision: str | None, config: SourceConfig, why: str
) -> list[tuple[str, str | None]]:
    """Return the files in the hub's own cache; raise if it does not have the whole dataset."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repo, repo_type="dataset", revision=revision, local_files_only=True))
        folders = sorted(each.name for each in folder.iterdir() if each.is_dir())
        return _resolve(repo, str(folder), None, config, folders)
    except InputNotFoundError:
        raise
    except Exception as error:
        raise InputUnavailableError(
            f"{repo}: not in the hub's cache, and the hub cannot be reached ({why})\n"
            f"go online, or download it where there is a network: hf download {repo} --repo-type dataset\n"
            "or give the path of its files"
        ) from error


def _explain(repo: str, revision: str | None, error: Exception) -> None:
    """Raise a user-facing error if the hub rejected the request; return if it could not be reached."""
    said = f"(the hub said: {first_line(error)})"
    kind = type(error).__name__
    if kind == "GatedRepoError":
        raise InputUnavailableError(
            f"{repo}: the dataset is gated, and your account may not read it yet\n"
            f"ask for access on its page, then log in: hf auth login (or set HF_TOKEN)\n{said}"
        ) from error
    if kind == "RevisionNotFoundError":
        raise InputNotFoundError(
            f"{repo}: no revision {revision!r}\n"
            f"a revision is a branch, a tag or a commit; leave it out for the newest\n{said}"
        ) from error
    if kind in {"RepositoryNotFoundError", "HFValidationError"}:
        raise InputNotFoundError(
            f"{repo}: no such file or folder, and no such dataset on the hub that you may read\n"
            f"check the spelling; a private one needs your token: hf auth login, or set HF_TOKEN\n{said}"
        ) from error
