"""The thread pool of Hugging Face: one per process, made at first use, as large as a variable says."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "RAYON_NUM_THREADS"


@contextlib.contextmanager
def resize(threads: int) -> Iterator[None]:
    """A pool that is made inside has this many threads; the environment is left as it was.

    Without it the pool takes every core of the host that it can see, whatever `threads` or the other ranks
    say. If the variable stayed set, the next job would take it for the user's own choice.
    """
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(threads)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
