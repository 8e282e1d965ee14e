"""Read ahead in one thread: while the model works, the next batches are paged in and gathered."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")
# How often a thread that waits for room looks whether its reader has gone away.
_LOOK = 0.2


class _End:
    """Marks the end of the stream, with the error that ended it if there was one."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(items: Iterator[T], depth: int) -> Iterator[T]:
    """The same items in the same order, up to `depth` of them made before they are asked for."""
    queue: Queue[T | _End] = Queue(maxsize=depth)
    stopped = Event()
    thread = Thread(target=_fill, args=(items, queue, stopped), name="tokenmill-prefetch", daemon=True)
    thread.start()
    try:
        while not isinstance(item := queue.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
        with suppress(Empty):
            queue.get_nowait()
        thread.join()


def _fill(items: Iterator[T], queue: Queue[T | _End], stopped: Event) -> None:
    try:
        for item in items:
            if not _put(queue, item, stopped):
                return
    except BaseException as error:  # noqa: BLE001 - it is raised again where the items are read
        _put(queue, _End(error), stopped)
    else:
        _put(queue, _End(None), stopped)


def _put(queue: Queue[T | _End], item: T | _End, stopped: Event) -> bool:
    while not stopped.is_set():
        with suppress(Full):
            queue.put(item, timeout=_LOOK)
            return True
    return False
