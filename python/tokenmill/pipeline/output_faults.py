"""Errors of the system while a job writes, as errors of ours that name the output and say what to do."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.errors import ConfigError, InterruptedJobError, TokenmillError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}


@contextmanager
def explain_faults(output: str | Path) -> Iterator[None]:
    """Raise the system's `OSError` as a `ConfigError` or an `InterruptedJobError`."""
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
    in_the_way = error.errno == errno.EEXIST and output.exists() and not output.is_dir()
    if error.errno in _REFUSED or in_the_way:
        return ConfigError(
            f"{output} cannot be written ({where}). Get permission to write there, or name another output"
        )
    if error.errno == errno.ENOENT and not _can_create(output, error.filename):
        return ConfigError(f"{output} cannot be created ({where}). Name another output")
    inside = Path(str(error.filename)).is_relative_to(output)
    if error.errno == errno.ENOENT and (inside or not output.exists()):
        what = f"a part of {output}" if output.exists() else f"{output}"
        return InterruptedJobError(
            f"{what} was removed while a job wrote there ({where}). The same command makes it again"
        )
    return InterruptedJobError(
        f"{output}: the system failed while a job wrote there ({where}). What is finished is safe: fix the "
        "cause and run the same command again"
    )


def _can_create(output: Path, missing: object) -> bool:
    """Whether a missing output can be created: the error is the same in `/proc` and in a removed folder.

    Only trying it tells; it is tried where the system refused the output itself or a folder above it.
    """
    if output.exists() or missing not in {str(path) for path in (output, *output.parents)}:
        return True
    first = next(path for path in (*reversed(output.parents), output) if not path.exists())
    try:
        first.mkdir()
        first.rmdir()
    except OSError:
        return False
    return True
