"""URLs: which client opens what they name, for reading and for a dataset, and which extra brings it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from tokenmill.errors import InputError, MissingExtraError, StoreError


@dataclass(frozen=True)
class Scheme:
    """How URLs of one kind are opened: which package reads inputs, and which stores datasets, if any."""

    reader: str
    keeper: str | None = None
    spelled: str | None = None
    """What the clients call it, where that is another word."""


_STORE = Scheme("obstore", "obstore")
# The large object stores go through one client, so that inputs and outputs share its credentials. Any other
# URL that fsspec knows may be an input.
SCHEMES = dict.fromkeys(("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"), _STORE) | {
    "gcs": Scheme("obstore", "obstore", spelled="gs"),
    "hf": Scheme("huggingface_hub"),
    "http": Scheme("aiohttp", "obstore"),
    "https": Scheme("aiohttp", "obstore"),
}
# Which of our extras brings a package; others are installed by their own name.
EXTRAS = {"obstore": "s3", "huggingface_hub": "hf"}
# What clients raise that is no OSError, by the module that has it; only what is loaded can be raised.
_CLIENT_ERRORS = (
    ("obstore.exceptions", "BaseError"),
    ("aiohttp", "ClientError"),
    ("httpx", "HTTPError"),
    ("httpx2", "HTTPError"),
    ("botocore.exceptions", "BotoCoreError"),
)


def is_remote(address: str | os.PathLike[str]) -> bool:
    """Whether an address is a URL: `"s3://bucket/x"` -> True."""
    return "://" in os.fspath(address)


def join_address(address: str, name: str) -> str:
    """What lies below a directory or a URL, which keeps its two slashes: `"s3://bucket/x"`, `"y"`."""
    return f"{address.rstrip('/')}/{name}" if is_remote(address) else str(Path(address) / name)


def open_filesystem(url: str) -> tuple[Any, str]:
    """The fsspec filesystem of a URL and the path in it; nothing is asked over the network.

    An object store is whatever fsspec has for it where `obstore` is not there.
    """
    scheme, rest = _split(url)
    known = SCHEMES.get(scheme)
    if known is not None and known.reader == "obstore":
        try:
            from obstore.fsspec import FsspecStore
        except ImportError:
            pass
        else:
            return FsspecStore(scheme), rest
    # Imported here: it brings asyncio along, and most inputs are local files.
    import fsspec

    try:
        return cast("tuple[Any, str]", fsspec.core.url_to_fs(url))
    except ImportError as error:
        if known is None:
            raise MissingExtraError(f"reading {url} needs another package: {error}") from error
        raise _explain_missing(known.reader, f"reading {url}") from error
    except ValueError as error:
        raise InputError(f"{url}: {error}; use a path, or a URL that fsspec knows") from error


def check_keeper(address: str) -> str:
    """The URL as its client spells it; raises where no dataset can be stored, or the package is missing."""
    scheme, rest = _split(address)
    known = SCHEMES.get(scheme)
    if known is None or known.keeper is None:
        stores = ", ".join(f"{name}://" for name, each in SCHEMES.items() if each.keeper is not None)
        raise StoreError(
            f"{address}: a dataset cannot be stored there. Use a directory, or a URL starting with {stores}"
        )
    try:
        import_module(known.keeper)
    except ImportError as error:
        raise _explain_missing(known.keeper, f"the object store {address}") from error
    return f"{scheme}://{rest}"


def _split(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    known = SCHEMES.get(scheme)
    return (known.spelled if known is not None and known.spelled else scheme), rest


def _explain_missing(package: str, purpose: str) -> MissingExtraError:
    return MissingExtraError.of(package, EXTRAS.get(package), purpose)


def remote_errors() -> tuple[type[Exception], ...]:
    """What a client may raise when a store fails."""
    loaded = [(sys.modules.get(module), name) for module, name in _CLIENT_ERRORS]
    return (OSError, *(getattr(module, name) for module, name in loaded if module is not None))


def first_line(error: Exception) -> str:
    """An error in one line: clients print pages."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
