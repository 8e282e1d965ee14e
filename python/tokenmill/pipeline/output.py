"""Lock the output directory of a job, and convert system errors to errors that name it.

Training uses this module too, so it does not import `tokenmill.datasets`.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tokenmill.errors import ConfigError, InterruptedJobError, TokenmillError

logger = logging.getLogger("tokenmill.prepare")
LOCK = ".lock"
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}


@contextmanager
def lock_dataset(root: Path) -> Iterator[None]:
    """Hold the lock of a dataset directory. Every job that writes into a dataset takes it."""
    from filelock import FileLock, Timeout  # here, since importing it takes 50 ms

    root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(root / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        logger.info("Waiting for another process that is preparing the same dataset...")
        lock.acquire()
    try:
        yield
    finally:
        # A process that waits for the removed file opens a new one.
        with suppress(OSError):
            (root / LOCK).unlink()
        lock.release()


@contextmanager
def explain_faults(output: str | Path) -> Iterator[None]:
    """Raise a system `OSError` as a `ConfigError` or an `InterruptedJobError` that names the output."""
    try:
        yield
    except OSError as error:
        if isinstance(error, TokenmillError):
            raise
        words = error.strerror or type(error).__name__
        where = f"{error.filename}: {words}" if error.filename else words
        in_the_way = error.errno == errno.EEXIST and not Path(output).is_dir()
        if error.errno in _REFUSED or in_the_way:
            raise ConfigError(
                f"{output} cannot be written ({where}). Get permission to write there, or name another output"
            ) from error
        raise InterruptedJobError(
            f"{output}: the system failed while a job wrote there ({where}). What is finished is safe: fix "
            "the cause, such as a full disk or a removed directory, and run the same command again"
        ) from error
