"""The two files that a running job leaves in its directory for those who watch, by name and by reading.

Neither is content: no dataset needs them, no hash covers them, and both may be deleted.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

PROGRESS = "progress.json"
EVENTS = "events.jsonl"


def parse_object(data: bytes) -> dict[str, Any]:
    """A JSON object; an empty one if the bytes are anything else."""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def read_object(path: Path) -> dict[str, Any] | None:
    """A small JSON object that another process replaces now and then; None if there is none to read."""
    try:
        return parse_object(path.read_bytes()) or None
    except OSError:
        return None


def read_progress(root: Path) -> dict[str, Any] | None:
    """How far the job in a directory is, or None if it does not tell."""
    return read_object(root / PROGRESS)
