"""The two files that a running job leaves in its directory for those who watch: names, and how to read them.

Neither is content: no dataset needs them, no hash covers them, and both may be deleted.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import temporary_name

if TYPE_CHECKING:
    from pathlib import Path

PROGRESS = "progress.json"
EVENTS = "events.jsonl"


def replace_file(path: Path, data: bytes) -> None:
    """Replace a small file at once, without waiting for the disk: it says nothing once its writer is gone."""
    temporary = temporary_name(path)
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


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
    """How far the job in a directory is, or None if it does not say."""
    return read_object(root / PROGRESS)
