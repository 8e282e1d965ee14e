"""Open URLs of inputs and datasets, and name the extra that installs the client of a URL."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, cast

from tokenmill.errors import InputError, MissingExtraError, StoreError, explain_missing

# The large object stores go through one client, for inputs and outputs alike, so that both use the same
# credentials. Any other URL that fsspec supports may be an input.
_STORES = ("s3", "s3a", "gs", "gcs", "az", "azure", "adl", "abfs", "abfss")
_KEEPERS = (*_STORES, "http", "https")
# Errors of clients that are not OSError, by module; only a loaded module can raise.
_CLIENT_ERRORS = (
    ("obstore.exceptions", "BaseError"),
    ("aiohttp", "ClientError"),
    ("httpx", "HTTPError"),
    ("httpx2", "HTTPError"),
)


def is_remote(address: str | os.PathLike[str]) -> bool:
    """Return True for a URL: `"s3://bucket/x"`."""
    return "://" in os.fspath(address)


def join_address(address: str, name: str) -> str:
    """Return the address of a name below a directory or a URL: `"s3://bucket/x"`, `"y"`."""
    return f"{address.rstrip('/')}/{name}" if is_remote(address) else str(Path(address) / name)


def open_filesystem(url: str) -> tuple[Any, str]:
    """Return the fsspec filesystem of a URL and the path in it, without a request over the network."""
    scheme, rest = _split(url)
    if scheme in _STORES:
        with explain_missing("obstore", "s3", f"reading {url}"):
            from obstore.fsspec import FsspecStore
        return FsspecStore(scheme), rest
    import fsspec  # here, since it imports asyncio, and most inputs are local files

    try:
        return cast("tuple[Any, str]", fsspec.core.url_to_fs(url))
    except ImportError as error:
        if scheme == "hf":
            raise MissingExtraError.of("huggingface_hub", "hf", f"reading {url}") from error
        raise MissingExtraError(f"reading {url} needs another package: {error}") from error
    except ValueError as error:
        raise InputError(f"{url}: {error}; use a path, or a URL that fsspec supports") from error


def check_keeper(address: str) -> str:
    """Return the URL in the form its client expects; raise if a dataset cannot be stored there."""
    scheme, rest = _split(address)
    if scheme not in _KEEPERS:
        stores = ", ".join(f"{name}://" for name in _KEEPERS)
        raise StoreError(
            f"{address}: a dataset cannot be stored there. Use a directory, or a URL starting with {stores}"
        )
    with explain_missing("obstore", "s3", f"the object store {address}"):
        import obstore  # noqa: F401
    return f"{scheme}://{rest}"


def _split(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    return "gs" if scheme == "gcs" else scheme, rest


def remote_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a client may raise if a store fails."""
    loaded = [(sys.modules.get(module), name) for module, name in _CLIENT_ERRORS]
    return (OSError, *(getattr(module, name) for module, name in loaded if module is not None))


def first_line(error: Exception) -> str:
    """Return the first line of an error message, or the name of its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
