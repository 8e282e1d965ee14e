"""What an executor lends a unit while it runs: threads, memory, a way to be stopped, and a place to report."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from tokenmill.errors import InterruptedJobError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
DEFAULT_BLOCK_BYTES = 4 << 20
_POLL_SECONDS = 0.1


def _nothing(**_counts: int) -> None:
    """Report to nobody."""


@dataclass(frozen=True)
class Control:
    """Nothing here may change the bytes that come out."""

    threads: int = 1
    block_bytes: int = DEFAULT_BLOCK_BYTES
    batch_size: int | None = None
    writer_batch_size: int | None = None
    keep_in_memory: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    report: Callable[..., None] = _nothing

    def check(self) -> None:
        """Raise `InterruptedJobError` if the job was asked to stop."""
        if self.stop.is_set():
            raise InterruptedJobError("the job was stopped; the same command goes on where it stopped")


class _End:
    """Marks the end of a stream, with the error that ended it, if any."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def ahead(items: Iterable[T], control: Control, depth: int = 1) -> Iterator[T]:
    """The same items, made by a thread that stays at most `depth` items in front.

    So reading, encoding and writing overlap while no more than a few blocks are in flight. Whoever stops
    taking items stops the thread.
    """
    ready: queue.Queue[T | _End] = queue.Queue(maxsize=depth)
    left = threading.Event()

    def put(item: T | _End) -> bool:
        while not left.is_set():
            try:
                ready.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                if control.stop.is_set() and not isinstance(item, _End):
                    return False
                continue
            return True
        return False

    def run() -> None:
        end = _End()
        try:
            for item in items:
                if control.stop.is_set() or not put(item):
                    break
        except BaseException as error:  # noqa: BLE001 - raised again where the items are taken
            end = _End(error)
        finally:
            # A generator further up must end its own thread before this one ends.
            getattr(items, "close", _nothing)()
        put(end)

    thread = threading.Thread(target=run, name="tokenmill-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                control.check()
                return
            yield item
            # The taker is done with it; holding it here would keep one block more in memory.
            del item
    finally:
        left.set()
        thread.join()
