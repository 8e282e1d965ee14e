"""What the system refuses while a job writes: an error of ours that names the output and says what to do."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.errors import ConfigError, InterruptedJobError, TokenmillError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}


@contextmanager
def explain_faults(output: str | Path) -> Iterator[None]:
    """Raise the system's `OSError` as a `ConfigError` or an `InterruptedJobError`; ours pass as they are."""
    try:
        yield
    except OSError as error:
        if isinstance(error, TokenmillError):
            raise
        raise _explain(error, Path(output)) from error


def _explain(error: OSError, output: Path) -> TokenmillError:
    words = error.strerror or type(error).__name__
    where = f"{error.filename}: {words}" if error.filename else words
    if error.errno in _FULL:
        return InterruptedJobError(
            f"no space left for {output} ({where}). What is finished is safe: free some space and run the "
            "same command again"
        )
    if error.errno in _REFUSED:
        return ConfigError(
            f"{output} cannot be written ({where}). Get the right to write there, or name another output"
        )
    if error.errno == errno.ENOENT and not output.exists():
        return InterruptedJobError(
            f"{output} was removed while a job wrote there ({where}). The same command makes it again"
        )
    return InterruptedJobError(
        f"{output}: the system failed while a job wrote there ({where}). What is finished is safe: fix the "
        "cause and run the same command again"
    )
