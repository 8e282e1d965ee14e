"""Read ahead: run an iterator in a thread, a few items in front of its consumer."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

Item = TypeVar("Item")
_POLL_SECONDS = 0.1


def prefetch(items: Iterator[Item], depth: int = 2) -> Iterator[Item]:
    """The same items in the same order, up to `depth` of them made before they are asked for.

    An error is raised where the item would have come. When the consumer stops early, the thread
    ends and `items` is closed.
    """
    ready: queue.Queue[tuple[bool, Item | BaseException | None]] = queue.Queue(maxsize=max(depth, 1))
    stop = threading.Event()
    thread = threading.Thread(
        target=_run, args=(items, ready, stop), name="tokenmill-read-ahead", daemon=True
    )
    thread.start()
    try:
        while True:
            more, item = ready.get()
            if not more:
                if isinstance(item, BaseException):
                    raise item
                return
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        thread.join()


def _run(
    items: Iterator[Item], ready: queue.Queue[tuple[bool, Item | BaseException | None]], stop: threading.Event
) -> None:
    last: BaseException | None = None
    try:
        for item in items:
            if not _put(ready, (True, item), stop):
                return
    except BaseException as error:  # noqa: BLE001 - raised again in the consumer's thread
        last = error
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()
        _put(ready, (False, last), stop)


def _put(
    ready: queue.Queue[tuple[bool, Item | BaseException | None]],
    entry: tuple[bool, Item | BaseException | None],
    stop: threading.Event,
) -> bool:
    while not stop.is_set():
        try:
            ready.put(entry, timeout=_POLL_SECONDS)
        except queue.Full:
            continue
        return True
    return False
