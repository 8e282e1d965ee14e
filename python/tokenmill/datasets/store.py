"""Objects of a dataset in a bucket, and small files at a path or URL.

Object stores have no rename. Shared objects are created with `If-None-Match: *`, so the first write wins. A
store without conditional writes is rejected before anything is written.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from tokenmill.base.durable import cache_root, publish_bytes, temporary_name
from tokenmill.errors import StoreError
from tokenmill.sources.stores import check_keeper, is_remote

_PART_BYTES = 16 << 20


def cache_directory(address: str, purpose: str) -> Path:
    """Return the local directory for a remote dataset, below `TOKENMILL_CACHE` or the user's cache."""
    return cache_root() / purpose / hashlib.sha256(address.encode()).hexdigest()[:16]


def read_file(address: str, name: str) -> bytes | None:
    """Return a small file of the dataset at a path or URL, or None if it does not exist."""
    if is_remote(address):
        return ObjectStore(address).read(name)
    path = Path(address) / name
    return path.read_bytes() if path.is_file() else None


def replace_file(address: str, name: str, data: bytes) -> None:
    """Write a small file of the dataset at a path or URL atomically."""
    if is_remote(address):
        ObjectStore(address).replace(name, data)
    else:
        publish_bytes(Path(address) / name, data)


def store_variables() -> dict[str, str]:
    """Return the environment variables that configure object stores."""
    return {
        name: value for name, value in os.environ.items() if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))
    }


@lru_cache(maxsize=16)
def _open_client(address: str, _variables: frozenset[tuple[str, str]], *, patient: bool) -> Any:
    """Open a client, cached per address and credentials."""
    from obstore.store import from_url

    tries, seconds = (10, 180) if patient else (2, 10)
    limits = {"max_retries": tries, "retry_timeout": timedelta(seconds=seconds)}
    return from_url(address, retry_config=limits)


def _shorten(error: BaseException) -> str:
    """Return the first line of an error, or the code and message of an XML answer."""
    text = str(error).strip()
    first, xml, answer = text.partition("<?xml")
    words = [re.search(f"<{tag}>([^<]*)<", answer) for tag in ("Code", "Message")]
    if xml and all(words):
        return first + ": ".join(word[1].rstrip(".") for word in words if word)
    return text.splitlines()[0] if text else type(error).__name__


@dataclass(frozen=True)
class ObjectStore:
    """Named objects below one address of S3, Google Cloud Storage or Azure. It can be pickled."""

    address: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", self.address.rstrip("/"))

    @contextmanager
    def _connect(self, action: str, name: str = "", *, patient: bool = True) -> Iterator[Any]:
        """Open the client. Convert its errors to a `StoreError` that names the object and the action."""
        address = check_keeper(self.address)
        from obstore.exceptions import BaseError

        try:
            yield _open_client(address, frozenset(store_variables().items()), patient=patient)
        except StoreError:
            raise
        except (BaseError, OSError, ValueError) as error:
            raise StoreError(
                f"{self.address}/{name} could not be {action}: {_shorten(error)}. Check the address, the "
                f"credentials (they may have expired) and AWS_ENDPOINT_URL (for an http address, also set "
                "AWS_ALLOW_HTTP=true). Finished work is safe: run the same command again to continue"
            ) from error

    def read(self, name: str) -> bytes | None:
        """Return the content of a small object, or None if it does not exist."""
        with self._connect("read", name) as client:
            try:
                return bytes(client.get(name).bytes())
            except FileNotFoundError:
                return None

    def create(self, name: str, data: bytes, *, patient: bool = True) -> bool:
        """Write an object if it does not exist. Return False if it does."""
        with self._connect("created", name, patient=patient) as client:
            from obstore.exceptions import AlreadyExistsError, NotSupportedError

            try:
                client.put(name, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            except (NotSupportedError, NotImplementedError) as error:
                raise self._explain_no_condition() from error
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write an object atomically, whether it exists or not."""
        with self._connect("written", name) as client:
            client.put(name, data, use_multipart=False)

    def upload(self, name: str, path: Path) -> None:
        """Upload a file in parts. The object appears with the last part."""
        with self._connect("written", name) as client, path.open("rb") as file:
            client.put(name, file, chunk_size=_PART_BYTES)

    def fetch(self, name: str, path: Path) -> None:
        """Download an object to `path` atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_name(path)
        try:
            with self._connect("fetched", name) as client, temporary.open("wb") as file:
                for chunk in client.get(name).stream(min_chunk_size=_PART_BYTES):
                    file.write(chunk)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def list_sizes(self, prefix: str) -> dict[str, int]:
        """Return the names and sizes of the objects below `prefix/`."""
        with self._connect("listed", prefix) as client:
            return {item["path"]: item["size"] for page in client.list(prefix=prefix) for item in page}

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects. Ignore missing ones."""
        listed = list(names)
        if listed:
            with self._connect("deleted", listed[0]) as client:
                client.delete(listed)

    def check(self) -> None:
        """Raise `StoreError` if the store does not reject a second creation of an object."""
        name = f".probe-{os.urandom(8).hex()}"
        # Few retries: at the start of a job a wrong address is more likely than an outage.
        first, second = (self.create(name, b"probe", patient=False) for _ in range(2))
        self.delete([name])
        if not first or second:
            raise self._explain_no_condition()

    def _explain_no_condition(self) -> StoreError:
        return StoreError(
            f"{self.address} does not support conditional writes (If-None-Match), so two jobs could "
            "silently overwrite each other. Use a store that does (S3, GCS, Azure, MinIO, R2), or write to "
            "a local directory and copy it"
        )
