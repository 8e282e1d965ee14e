"""How many threads a batch call may use when the caller does not say."""

from __future__ import annotations

import os


def available() -> int:
    """The cores that this process may run on; `TOKENMILL_THREADS` overrides."""
    wanted = os.environ.get("TOKENMILL_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
