"""Open an input for reading, local or remote, and notice that it is not the file it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from tokenmill.base.errors import InputError, InputNotFoundError, MissingExtraError
from tokenmill.sources.faults import ChangedInputError, FileFaultError

if TYPE_CHECKING:
    from tokenmill.sources.model import InputFile


_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"}
_PACKAGES = {"s3": "obstore", "hf": "huggingface_hub"}
_READ_AHEAD_BYTES = 8 << 20
# What stores call the version of an object, the surest first.
_VERSION_KEYS = (
    "ETag",
    "etag",
    "e_tag",
    "blob_id",
    "md5Hash",
    "crc32c",
    "LastModified",
    "last_modified",
    "mtime",
    "created",
)


def local_identity(stat: os.stat_result) -> str:
    """Size and mtime: `"120-1700000000000000000"`."""
    return f"{stat.st_size}-{stat.st_mtime_ns}"


def remote_identity(info: dict[str, Any]) -> str:
    """Size and whatever the store has to tell versions apart: an etag, a checksum, a time."""
    for key in _VERSION_KEYS:
        if info.get(key):
            return f"{info.get('size')}-{str(info[key]).strip(chr(34))}"
    return str(info.get("size"))


def filesystem(url: str) -> tuple[Any, str]:
    """The fsspec filesystem of a URL and the path in it.

    The large object stores go through `obstore` if it is there, so that inputs and outputs share one
    client and one set of credentials; everything else is whatever fsspec has for it.
    """
    scheme, _, rest = url.partition("://")
    if scheme in _OBJECT_STORES and (system := _object_store(scheme)) is not None:
        return system, rest
    # Imported here: it brings asyncio along, and most inputs are local files.
    import fsspec

    try:
        return cast("tuple[Any, str]", fsspec.core.url_to_fs(url))
    except ImportError as error:
        extra = "hf" if scheme == "hf" else "s3"
        raise MissingExtraError.of(_PACKAGES.get(scheme, scheme), extra, f"reading {url}") from error
    except ValueError as error:
        raise InputError(f"{url}: {error}; use a path, or a URL that fsspec knows") from error


def _object_store(scheme: str) -> Any:
    try:
        from obstore.fsspec import FsspecStore
    except ImportError:
        return None
    return FsspecStore(scheme)


def remote_errors() -> tuple[type[Exception], ...]:
    """What a client may raise when a store does not answer as it should."""
    try:
        from obstore.exceptions import BaseError
    except ImportError:
        return (OSError,)
    return (OSError, BaseError)


def first_line(error: Exception) -> str:
    """An error in one line: clients print pages."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def open_raw(file: InputFile) -> BinaryIO:
    """The bytes as they are stored, unbuffered, after a check that they are those that were planned."""
    try:
        return _open_local(file) if file.local else _open_remote(file)
    except FileNotFoundError as error:
        raise InputNotFoundError(
            f"{file.url}: the file was there when the job was planned and is gone"
        ) from error
    except PermissionError as error:
        raise FileFaultError("unreadable", file.url, f"no permission ({error})") from error
    except remote_errors() as error:
        raise FileFaultError("unreadable", file.url, first_line(error)) from error


def _open_local(file: InputFile) -> BinaryIO:
    raw = Path(file.url).open("rb", buffering=0)  # noqa: SIM115 - the caller closes it
    try:
        check_identity(file, local_identity(os.fstat(raw.fileno())))
    except ChangedInputError:
        raw.close()
        raise
    return cast("BinaryIO", raw)


def _open_remote(file: InputFile) -> BinaryIO:
    system, path = filesystem(file.url)
    system.invalidate_cache()  # a listing that was kept would show the object as it was
    check_identity(file, remote_identity(system.info(path)))
    return cast("BinaryIO", system.open(path, "rb", **_buffering(system)))


def _buffering(system: Any) -> dict[str, Any]:
    """How to ask for large requests: each kind of client has its own word for it."""
    if type(system).__module__.startswith("obstore"):
        return {"buffer_size": _READ_AHEAD_BYTES}
    return {"block_size": _READ_AHEAD_BYTES, "cache_type": "readahead"}


def check_identity(file: InputFile, found: str) -> None:
    """Raise if the file is not the one that was planned."""
    if found != file.identity:
        raise ChangedInputError(
            f"{file.url}: the file changed after the job was planned (size and version were {file.identity}, "
            f"are {found}). Plan again, or put the old file back"
        )
