"""Work on several items at once: results in order, errors in their place, nothing left running."""

import threading
import time

import pytest

from tokenmill.pipeline.unit import map_in_order


def test_results_come_in_the_order_of_the_items():
    def slow_first(item):
        time.sleep(0.02 if item % 3 == 0 else 0)
        return item * item

    assert list(map_in_order(slow_first, iter(range(30)), 3)) == [item * item for item in range(30)]


def test_no_more_than_the_workers_and_one_are_taken():
    taken, gate = [], threading.Event()

    def items():
        for item in range(10):
            taken.append(item)
            yield item

    def wait(item):
        gate.wait(5)
        return item

    results = map_in_order(wait, items(), 2)
    threading.Timer(0.05, gate.set).start()
    assert next(results) == 0
    assert len(taken) == 3
    results.close()


def test_an_error_comes_where_its_result_would_have():
    closed = []

    def items():
        try:
            yield from range(10)
        finally:
            closed.append(True)

    def work(item):
        if item == 4:
            raise ValueError("four")
        return item

    seen = []
    results = map_in_order(work, items(), 2)
    seen.extend(next(results) for _ in range(4))
    with pytest.raises(ValueError, match="four"):
        next(results)
    assert (seen, closed) == ([0, 1, 2, 3], [True])


def test_one_worker_is_enough():
    assert list(map_in_order(str, iter(range(3)), 1)) == ["0", "1", "2"]
    assert list(map_in_order(str, iter(()), 4)) == []
