"""Read ahead: run an iterator in a thread, a few items in front of its consumer."""

from __future__ import annotations

from collections.abc import Generator
from queue import Full, Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

Item = TypeVar("Item")
# How often a thread that waits for room looks whether its consumer has gone away.
_POLL_SECONDS = 0.1


class _End(NamedTuple):
    """The end of the items, with the error that ended them, if any."""

    error: BaseException | None


def prefetch(items: Iterator[Item], depth: int = 2) -> Iterator[Item]:
    """Yield the same items, up to `depth` of them made ahead in a thread.

    An error is raised where the item would have come. When the consumer stops early, the thread
    ends and `items` is closed.
    """
    ready: Queue[Item | _End] = Queue(maxsize=max(depth, 1))
    stop = Event()
    thread = Thread(target=_run, args=(items, ready, stop), name="tokenmill-read-ahead", daemon=True)
    thread.start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        thread.join()


def _run(items: Iterator[Item], ready: Queue[Item | _End], stop: Event) -> None:
    end = _End(None)
    try:
        for item in items:
            if not _put(ready, item, stop):
                break
    except BaseException as error:  # noqa: BLE001 - raised again in the consumer's thread
        end = _End(error)
    finally:
        if isinstance(items, Generator):
            items.close()
        _put(ready, end, stop)


def _put(ready: Queue[Item | _End], item: Item | _End, stop: Event) -> bool:
    while not stop.is_set():
        try:
            ready.put(item, timeout=_POLL_SECONDS)
        except Full:
            continue
        return True
    return False
