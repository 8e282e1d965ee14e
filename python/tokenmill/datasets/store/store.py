"""Where a dataset's objects live: a directory, or a bucket of an object store.

A store has no rename. What may be written by several at once is created on condition that it does not
exist yet, so that the first one wins and the others learn of it; a store that cannot promise this is
refused before anything is written.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tokenmill.base.durable import publish_bytes, temporary_name
from tokenmill.base.errors import StoreError
from tokenmill.base.platform import sync
from tokenmill.sources.stores import check_keeper, is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PART_BYTES = 16 << 20


class Store(Protocol):
    """Named objects below one address. It pickles, so that any executor can carry it."""

    @property
    def address(self) -> str:
        """Where the objects are: a path or a URL."""

    def read(self, name: str) -> bytes | None:
        """All of a small object; None if there is none."""

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that is not there yet; False, and nothing written, if it is."""

    def replace(self, name: str, data: bytes) -> None:
        """Write an object, whole or not at all, whatever was there."""

    def upload(self, name: str, path: Path) -> None:
        """Write the content of a file, whole or not at all."""

    def fetch(self, name: str, path: Path) -> None:
        """Bring an object to `path`, whole or not at all."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Names and sizes of the objects whose names begin with `prefix/`."""

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; those that are not there are passed over."""

    def check(self) -> None:
        """Raise `StoreError` unless `create` keeps its promise here."""


def open_store(address: str | os.PathLike[str]) -> Store:
    """The store at a path or URL."""
    return ObjectStore(os.fspath(address).rstrip("/")) if is_remote(address) else LocalStore(Path(address))


@dataclass(frozen=True)
class LocalStore:
    """A directory: temporary file, fsync, then a link (which fails if the name is taken) or a rename."""

    root: Path

    @property
    def address(self) -> str:
        """The directory."""
        return str(self.root)

    def read(self, name: str) -> bytes | None:
        """All of a file."""
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that is not there yet."""
        path = self.root / name
        whole = temporary_name(path)
        publish_bytes(whole, data)
        try:
            os.link(whole, path)
        except FileExistsError:
            return False
        finally:
            whole.unlink()
        sync(path.parent)
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write a file, whatever was there."""
        publish_bytes(self.root / name, data)

    def upload(self, name: str, path: Path) -> None:
        """Copy a file in."""
        publish_bytes(self.root / name, path.read_bytes())

    def fetch(self, name: str, path: Path) -> None:
        """Copy a file out."""
        publish_bytes(path, (self.root / name).read_bytes())

    def sizes(self, prefix: str) -> dict[str, int]:
        """Files below `prefix`."""
        found = sorted((self.root / prefix).rglob("*"))
        return {
            path.relative_to(self.root).as_posix(): path.stat().st_size for path in found if path.is_file()
        }

    def delete(self, names: Iterable[str]) -> None:
        """Remove files."""
        for name in names:
            (self.root / name).unlink(missing_ok=True)

    def check(self) -> None:
        """A directory keeps its promise."""


def store_variables() -> dict[str, str]:
    """What the environment says of stores: where they are, and who we are there."""
    return {
        name: value for name, value in os.environ.items() if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))
    }


@lru_cache(maxsize=16)
def _open_client(address: str, _variables: frozenset[tuple[str, str]], *, patient: bool) -> Any:
    """One client, with its connections, for each address; another when there are new credentials."""
    from obstore.store import from_url

    tries, seconds = (10, 180) if patient else (2, 10)
    limits = {"max_retries": tries, "retry_timeout": timedelta(seconds=seconds)}
    return from_url(address, retry_config=limits)


def _in_a_line(error: BaseException) -> str:
    """The first line; where the server answered in XML, its code and its sentence in place of that."""
    text = str(error).strip()
    first, xml, answer = text.partition("<?xml")
    words = [re.search(f"<{tag}>([^<]*)<", answer) for tag in ("Code", "Message")]
    if xml and all(words):
        return first + ": ".join(word[1].rstrip(".") for word in words if word)
    return text.splitlines()[0] if text else type(error).__name__


@dataclass(frozen=True)
class ObjectStore:
    """S3, Google Cloud Storage, Azure: what `obstore` speaks, set up by the environment."""

    address: str

    @contextmanager
    def _client(self, what: str, name: str = "", *, patient: bool = True) -> Iterator[Any]:
        """The store's client; what it raises is one error that names the object and what was tried."""
        address = check_keeper(self.address)
        from obstore.exceptions import BaseError

        try:
            yield _open_client(address, frozenset(store_variables().items()), patient=patient)
        except StoreError:
            raise
        except (BaseError, OSError, ValueError) as error:
            raise StoreError(
                f"{self.address}/{name} could not be {what}: {_in_a_line(error)}. Check the address, the "
                "credentials (they may have expired) and AWS_ENDPOINT_URL. What is finished is safe: the "
                "same command goes on from there"
            ) from error

    def read(self, name: str) -> bytes | None:
        """All of an object."""
        with self._client("read", name) as client:
            try:
                return bytes(client.get(name).bytes())
            except FileNotFoundError:
                return None

    def create(self, name: str, data: bytes, *, patient: bool = True) -> bool:
        """A conditional put: `If-None-Match: *`."""
        with self._client("created", name, patient=patient) as client:
            from obstore.exceptions import AlreadyExistsError, NotSupportedError

            try:
                client.put(name, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            except (NotSupportedError, NotImplementedError) as error:
                raise self._no_condition() from error
        return True

    def replace(self, name: str, data: bytes) -> None:
        """A put."""
        with self._client("written", name) as client:
            client.put(name, data, use_multipart=False)

    def upload(self, name: str, path: Path) -> None:
        """A put in parts; the object appears when the last one is there."""
        with self._client("written", name) as client, path.open("rb") as file:
            client.put(name, file, chunk_size=_PART_BYTES)

    def fetch(self, name: str, path: Path) -> None:
        """A get, streamed into a temporary file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_name(path)
        try:
            with self._client("fetched", name) as client, temporary.open("wb") as file:
                for chunk in client.get(name).stream(min_chunk_size=_PART_BYTES):
                    file.write(chunk)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def sizes(self, prefix: str) -> dict[str, int]:
        """A listing."""
        with self._client("listed", prefix) as client:
            return {item["path"]: item["size"] for page in client.list(prefix=prefix) for item in page}

    def delete(self, names: Iterable[str]) -> None:
        """Deletes."""
        listed = list(names)
        if listed:
            with self._client("deleted", listed[0]) as client:
                client.delete(listed)

    def check(self) -> None:
        """Create the same object twice; the second time must fail."""
        name = f".probe-{os.urandom(8).hex()}"
        # Not patient: at the start of a job a wrong address is likelier than a store that is down.
        first, second = (self.create(name, b"probe", patient=False) for _ in range(2))
        self.delete([name])
        if not first or second:
            raise self._no_condition()

    def _no_condition(self) -> StoreError:
        return StoreError(
            f"{self.address} does not support conditional writes (If-None-Match), so two jobs could "
            "overwrite each other unseen. Use a store that has them (S3, GCS, Azure, MinIO, R2), or write to "
            "a local directory and copy it"
        )
