"""Datasets on the Hugging Face hub by name, as `datasets` resolves them, pinned to one revision.

`ORG/NAME` and `hf://datasets/ORG/NAME[@REVISION]` become URLs of single files at a commit, so that neither
the data nor its URL in the manifest can change. Offline, the files of the hub's own cache are used.
"""

from __future__ import annotations

import re

from tokenmill.errors import InputNotFoundError, InputUnavailableError, explain_missing
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources.sniff import parse_name

NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_URL = re.compile(rf"hf://datasets/({NAME.pattern})(?:@([^/]+(?:/convert/parquet)?))?/?")
# The branch with the hub's Parquet conversion of a dataset, which has a folder for each subset.
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
        from huggingface_hub import HfApi, errors, is_offline_mode, snapshot_download
    try:
        if is_offline_mode():
            folder = snapshot_download(repo, repo_type="dataset", revision=revision, local_files_only=True)
            return _list_files(folder, None, config.subset)
        try:
            return _list_files(repo, HfApi().dataset_info(repo, revision=revision).sha, config.subset)
        except RuntimeError:  # a loading script, or no format that is read here
            sha = HfApi().dataset_info(repo, revision=_CONVERTED).sha
            return _list_files(repo, sha, config.subset or "default", by_folder=True)
    except Exception as error:
        absent = (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, FileNotFoundError, ValueError)
        raise (InputNotFoundError if isinstance(error, absent) else InputUnavailableError)(
            f"{repo}: no such file or folder, and no such dataset on the hub that can be read\n"
            "check the name, the revision and the subset; a private or gated dataset needs a token (hf auth "
            "login, or HF_TOKEN); without a network, set HF_HUB_OFFLINE=1 after: hf download "
            f"{repo} --repo-type dataset\n(the hub said: {' '.join(str(error).split())})"
        ) from error


def _list_files(
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
