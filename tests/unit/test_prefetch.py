"""Reading ahead keeps order, passes errors on, and leaves no thread behind."""

import threading

import pytest

from tokenmill.base.texts import prefetch


def readers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("tokenmill-read-ahead")]


def test_an_error_comes_where_the_item_would_have_come():
    def items():
        yield 1
        raise OSError("disk")

    ahead = prefetch(items())
    assert next(ahead) == 1
    with pytest.raises(OSError, match="disk"):
        next(ahead)


def test_stopping_early_ends_the_thread_and_closes_the_source():
    closed = threading.Event()

    def items():
        try:
            yield from range(10**9)
        finally:
            closed.set()

    ahead = prefetch(items(), depth=2)
    assert next(ahead) == 0
    ahead.close()
    assert closed.is_set()
    assert not readers()
