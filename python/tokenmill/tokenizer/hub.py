"""Hub ids such as `Qwen/Qwen2.5-0.5B`, through `huggingface_hub` and its cache."""

from __future__ import annotations

import re
from pathlib import Path

from tokenmill.errors import TokenizerNotFoundError, explain_missing
from tokenmill.tokenizer.files import names

_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_FILES = [*names.CONFIGS, *names.TEMPLATES, *names.READ]


def looks_like_id(name: str) -> bool:
    """`org/name` or `name`, and no path or file suffix that we read ourselves."""
    return bool(_ID.fullmatch(name)) and not name.endswith(names.SUFFIXES)


def is_cached(name: str) -> bool:
    """Whether the hub's cache has this tokenizer, which needs no network to know."""
    try:
        from huggingface_hub import snapshot_download

        snapshot_download(name, allow_patterns=_FILES, local_files_only=True)
    except Exception:  # noqa: BLE001 - not installed or not there: either way, no
        return False
    return True


def fetch(name: str) -> Path:
    """The directory in the cache that holds the tokenizer's files; downloads what is missing."""
    with explain_missing("huggingface-hub", "hf", f"{name}: loading from the hub"):
        from huggingface_hub import snapshot_download
    try:
        return Path(snapshot_download(name, allow_patterns=_FILES))
    except Exception as online:  # noqa: BLE001 - whatever it was, the cache may still have it
        try:
            return Path(snapshot_download(name, allow_patterns=_FILES, local_files_only=True))
        except Exception as error:
            reason = str(online).partition("\n")[0] or "no reason given"
            raise TokenizerNotFoundError(
                f"{name}: no such file, and neither the hub nor its cache has it "
                f"({type(online).__name__}: {reason}); "
                "check the spelling, go online once, or pass the path of the files"
            ) from error
