"""Ctrl-C and SIGTERM ask a job to stop at the next block; a second Ctrl-C ends it at once."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """While this lasts, a signal sets `stop`. Only the main thread can listen; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: Any) -> None:
        if stop.is_set() and number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        stop.set()

    before = {number: signal.signal(number, ask) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
