"""Where a remote dataset's objects live: a bucket of an object store.

A store has no rename. What several processes may write at once is created on condition that it does not
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
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import publish_bytes, temporary_name
from tokenmill.errors import StoreError
from tokenmill.sources.stores import check_keeper, is_remote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PART_BYTES = 16 << 20


def read_file(address: str, name: str) -> bytes | None:
    """A small file of the dataset at a path or URL; None if there is none."""
    if is_remote(address):
        return ObjectStore(address.rstrip("/")).read(name)
    path = Path(address) / name
    return path.read_bytes() if path.is_file() else None


def replace_file(address: str, name: str, data: bytes) -> None:
    """Write a small file of the dataset at a path or URL, whole or not at all."""
    if is_remote(address):
        ObjectStore(address.rstrip("/")).replace(name, data)
    else:
        publish_bytes(Path(address) / name, data)


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


def _shorten(error: BaseException) -> str:
    """The first line of an error; if the server answered in XML, its code and its message instead."""
    text = str(error).strip()
    first, xml, answer = text.partition("<?xml")
    words = [re.search(f"<{tag}>([^<]*)<", answer) for tag in ("Code", "Message")]
    if xml and all(words):
        return first + ": ".join(word[1].rstrip(".") for word in words if word)
    return text.splitlines()[0] if text else type(error).__name__


@dataclass(frozen=True)
class ObjectStore:
    """Named objects below one address: S3, Google Cloud Storage, Azure, set up by the environment.

    What `obstore` speaks. It pickles, so that any executor can carry it.
    """

    address: str

    @contextmanager
    def _connect(self, what: str, name: str = "", *, patient: bool = True) -> Iterator[Any]:
        """The store's client; what it raises is one error that names the object and what was tried."""
        address = check_keeper(self.address)
        from obstore.exceptions import BaseError

        try:
            yield _open_client(address, frozenset(store_variables().items()), patient=patient)
        except StoreError:
            raise
        except (BaseError, OSError, ValueError) as error:
            raise StoreError(
                f"{self.address}/{name} could not be {what}: {_shorten(error)}. Check the address, the "
                "credentials (they may have expired) and AWS_ENDPOINT_URL. Finished work is safe: "
                "run the same command again to continue"
            ) from error

    def read(self, name: str) -> bytes | None:
        """All of a small object; None if there is none."""
        with self._connect("read", name) as client:
            try:
                return bytes(client.get(name).bytes())
            except FileNotFoundError:
                return None

    def create(self, name: str, data: bytes, *, patient: bool = True) -> bool:
        """Write an object unless it is there (`If-None-Match: *`), which is False."""
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
        """Write an object, whole or not at all, whatever was there."""
        with self._connect("written", name) as client:
            client.put(name, data, use_multipart=False)

    def upload(self, name: str, path: Path) -> None:
        """Write the content of a file in parts; the object appears when the last one is there."""
        with self._connect("written", name) as client, path.open("rb") as file:
            client.put(name, file, chunk_size=_PART_BYTES)

    def fetch(self, name: str, path: Path) -> None:
        """Bring an object to `path`, whole or not at all."""
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
        """Names and sizes of the objects whose names begin with `prefix/`."""
        with self._connect("listed", prefix) as client:
            return {item["path"]: item["size"] for page in client.list(prefix=prefix) for item in page}

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; those that are not there are passed over."""
        listed = list(names)
        if listed:
            with self._connect("deleted", listed[0]) as client:
                client.delete(listed)

    def check(self) -> None:
        """Raise `StoreError` unless the same object cannot be created twice."""
        name = f".probe-{os.urandom(8).hex()}"
        # Not patient: at the start of a job a wrong address is likelier than a store that is down.
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
