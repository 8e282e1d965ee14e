"""Where this machine keeps what can be made or fetched again."""

from __future__ import annotations

import os
from pathlib import Path

from tokenmill.errors import ConfigError

# `off` keeps no tables of vocabularies; they take 40 MB for 200,000 tokens.
TABLES = "TOKENMILL_CACHE_TABLES"


def cache_root() -> Path:
    """`TOKENMILL_CACHE`, else `tokenmill` in the user's cache directory."""
    given = os.environ.get("TOKENMILL_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokenmill"


def tables_folder() -> Path | None:
    """Where the core keeps the tables of large vocabularies; None if `TOKENMILL_CACHE_TABLES` is `off`.

    The core makes the folder, bounds it, and does without where it cannot read or write there.
    """
    wanted = os.environ.get(TABLES, "on")
    if wanted not in {"on", "off"}:
        raise ConfigError(f"{TABLES}: expected on or off, found {wanted!r}")
    if wanted == "off":
        return None
    try:
        return cache_root() / "tables"
    except RuntimeError:  # a user without a home directory
        return None
