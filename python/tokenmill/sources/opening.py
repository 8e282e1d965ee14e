"""The client of a URL, and what it may raise."""

from __future__ import annotations

import sys
from typing import Any, cast

from tokenmill.base.errors import InputError, MissingExtraError

_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"}
_PACKAGES = {"s3": "obstore", "hf": "huggingface_hub"}
# What clients raise that is no OSError, by the module that has it; only what is loaded can be raised.
_CLIENT_ERRORS = (
    ("obstore.exceptions", "BaseError"),
    ("aiohttp", "ClientError"),
    ("httpx", "HTTPError"),
    ("botocore.exceptions", "BotoCoreError"),
)


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
    loaded = [(sys.modules.get(module), name) for module, name in _CLIENT_ERRORS]
    return (OSError, *(getattr(module, name) for module, name in loaded if module is not None))


def first_line(error: Exception) -> str:
    """An error in one line: clients print pages."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
