"""Several items of a stream worked on at once, the results in the stream's order."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

T = TypeVar("T")
R = TypeVar("R")


def map_in_order(work: Callable[[T], R], items: Iterator[T], workers: int) -> Iterator[R]:
    """`work(item)` of every item, in order, with up to `workers` under way and one more waiting.

    The first error is raised where its result would have come; `items` is closed when this ends.
    """
    running: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="tokenmill-encode") as pool:
        try:
            for item in items:
                running.append(pool.submit(work, item))
                if len(running) > workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
            if (close := getattr(items, "close", None)) is not None:
                close()
