"""The leader's signs in an object store, for ranks on hosts that share nothing else with it.

The leader puts its marker, its failure and its progress there beside its own files. A waiter on another host
fetches them into its own work directory, where it looks for them anyway; it never writes to the store.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tokenmill.base.durable import publish_bytes
from tokenmill.base.run_files import PROGRESS, parse_object, read_object
from tokenmill.datasets.ledger.manifest import MANIFEST, PLAN
from tokenmill.errors import StoreError
from tokenmill.pipeline.launch import identify_host
from tokenmill.pipeline.lease import FAILURE, MARKER

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.datasets.store.remote import Remote

# A store is not asked every second: both are well below what a waiter takes for death.
SHOW_SECONDS, FETCH_SECONDS = 5.0, 2.0


class Mirror:
    """Both sides: the leader's `show` and `hide`, a waiter's `fetch`. No fault of the store ends a job."""

    def __init__(self, remote: Remote) -> None:
        """For the dataset of a job whose work directory is this machine's own."""
        self._store = remote.store
        self._root = remote.work
        self._fetched = float("-inf")
        self._shown = float("-inf")

    def beat(self, data: bytes) -> None:
        """Show a sign of life with the progress, now and then."""
        if time.monotonic() - self._shown < SHOW_SECONDS:
            return
        self._shown = time.monotonic()
        self.show(MARKER, data)
        if progress := self._read(PROGRESS):
            self.show(PROGRESS, progress)

    def show(self, name: str, data: bytes) -> None:
        """Upload one of the files."""
        with suppress(StoreError):
            self._store.replace(name, data)

    def hide(self, *names: str) -> None:
        """Remove files."""
        with suppress(StoreError):
            self._store.delete(names)

    def fetch(self) -> None:
        """Fetch what the leader shows, unless it is on this host and its own files are here."""
        if time.monotonic() - self._fetched < FETCH_SECONDS:
            return
        self._fetched = time.monotonic()
        if _read_host(self._root / MARKER) == identify_host():
            return
        with suppress(StoreError):
            for name in (FAILURE, MARKER):
                self._fetch_sign(name)
            progress = self._store.read(PROGRESS)
            if progress is not None:
                publish_bytes(self._root / PROGRESS, progress)
            self._fetch_manifest()

    def _read(self, name: str) -> bytes:
        try:
            return (self._root / name).read_bytes()
        except OSError:
            return b""

    def _fetch_sign(self, name: str) -> None:
        path, data = self._root / name, self._store.read(name)
        if data is not None and parse_object(data).get("host") != identify_host():
            publish_bytes(path, data)
        elif data is None and _read_host(path) not in {None, identify_host()}:
            path.unlink(missing_ok=True)

    def _fetch_manifest(self) -> None:
        """The plan first: a manifest without one is a dataset that nobody may add to."""
        data = self._store.read(MANIFEST)
        if data is None or data == self._read(MANIFEST):
            return
        plan = self._store.read(PLAN)
        if plan is not None:
            publish_bytes(self._root / PLAN, plan)
            publish_bytes(self._root / MANIFEST, data)


def _read_host(path: Path) -> str | None:
    """The host that a file of a leader names; None if there is no such file."""
    return (read_object(path) or {}).get("host")
