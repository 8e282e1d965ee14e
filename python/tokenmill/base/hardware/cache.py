"""Where this machine keeps what can be made or fetched again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """`TOKENMILL_CACHE`, else `tokenmill` in the user's cache directory."""
    given = os.environ.get("TOKENMILL_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokenmill"
