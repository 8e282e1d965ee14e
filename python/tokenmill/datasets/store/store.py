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

from tokenmill.base.durable import publish_bytes, sync, temporary_name
from tokenmill.base.errors import MissingExtraError, StoreError

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


def is_remote(address: str | os.PathLike[str]) -> bool:
    """Whether an address is a URL: `"s3://bucket/x"` -> True."""
    return "://" in os.fspath(address)


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
def _client(address: str, _variables: frozenset[tuple[str, str]], *, patient: bool) -> Any:
    """One client, with its connections, for each address; another when there are new credentials."""
    from obstore.store import from_url

    limits = {"max_retries": 10, "retry_timeout": timedelta(minutes=3)}
    return from_url(
        address,
        retry_config=limits if patient else {"max_retries": 2, "retry_timeout": timedelta(seconds=10)},
    )


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

    def _open(self, *, patient: bool = True) -> Any:
        try:
            import obstore  # noqa: F401 - only asks whether it is there
        except ImportError as error:
            raise MissingExtraError.of("obstore", "s3", f"the object store {self.address}") from error
        with self._told("opened"):
            return _client(self.address, frozenset(store_variables().items()), patient=patient)

    @contextmanager
    def _told(self, what: str, name: str = "") -> Iterator[None]:
        """What the store says, as one error that names the object and what was tried."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(
                f"{self.address}/{name} could not be {what}: {_in_a_line(error)}. Check the address, the "
                "credentials (they may have expired) and AWS_ENDPOINT_URL. What is finished is safe: the "
                "same command goes on from there"
            ) from error

    def read(self, name: str) -> bytes | None:
        """All of an object."""
        import obstore

        with self._told("read", name):
            try:
                return bytes(obstore.get(self._open(), name).bytes())
            except FileNotFoundError:
                return None

    def create(self, name: str, data: bytes) -> bool:
        """A conditional put: `If-None-Match: *`."""
        return self._create(name, data, patient=True)

    def _create(self, name: str, data: bytes, *, patient: bool) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        with self._told("created", name):
            try:
                obstore.put(self._open(patient=patient), name, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            except (NotSupportedError, NotImplementedError) as error:
                raise self._no_condition() from error
        return True

    def replace(self, name: str, data: bytes) -> None:
        """A put."""
        import obstore

        with self._told("written", name):
            obstore.put(self._open(), name, data, use_multipart=False)

    def upload(self, name: str, path: Path) -> None:
        """A put in parts; the object appears when the last one is there."""
        import obstore

        with self._told("written", name), path.open("rb") as file:
            obstore.put(self._open(), name, file, chunk_size=_PART_BYTES)

    def fetch(self, name: str, path: Path) -> None:
        """A get, streamed into a temporary file."""
        import obstore

        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_name(path)
        try:
            with self._told("fetched", name), temporary.open("wb") as file:
                for chunk in obstore.get(self._open(), name).stream(min_chunk_size=_PART_BYTES):
                    file.write(chunk)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def sizes(self, prefix: str) -> dict[str, int]:
        """A listing."""
        import obstore

        with self._told("listed", prefix):
            pages = obstore.list(self._open(), prefix=prefix)
            return {item["path"]: item["size"] for page in pages for item in page}

    def delete(self, names: Iterable[str]) -> None:
        """Deletes."""
        import obstore

        listed = list(names)
        if listed:
            with self._told("deleted", listed[0]):
                obstore.delete(self._open(), listed)

    def check(self) -> None:
        """Create the same object twice; the second time must fail."""
        name = f".probe-{os.urandom(8).hex()}"
        # Not patient: at the start of a job a wrong address is likelier than a store that is down.
        first, second = (self._create(name, b"probe", patient=False) for _ in range(2))
        self.delete([name])
        if not first or second:
            raise self._no_condition()

    def _no_condition(self) -> StoreError:
        return StoreError(
            f"{self.address} does not keep its word on conditional writes (If-None-Match), so two jobs could "
            "overwrite each other unseen. Use a store that has them (S3, GCS, Azure, MinIO, R2), or write to "
            "a local directory and copy it"
        )
