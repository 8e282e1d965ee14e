"""Threads of this process: who throws the results away hears of no other failure."""

import gc
import threading

import pytest

from tokenmill.pipeline.executors import Control, LocalExecutor


def test_a_unit_that_fails_after_its_reader_has_failed_prints_nothing(capsys):
    taken = threading.Event()

    def work(_job, task, _control):
        if task == "slow":
            taken.wait(10)
            raise OSError(28, "No space left on device")
        return task

    results = LocalExecutor(2, 1 << 30).run(work, None, iter(["quick", "slow"]), 2, Control())
    assert next(results).result == "quick"
    taken.set()
    # As when the loop over them has raised something: Python prints what a generator raises when it is collected.
    del results
    gc.collect()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("threads", "budget", "expected"),
    [(1, 1 << 30, 1 << 20), (16, 8 << 30, 1 << 20), (17, 8 << 30, 2 << 20), (32, 8 << 30, 2 << 20), (64, 64 << 30, 4 << 20), (256, 1 << 40, 4 << 20), (64, 1 << 20, 64 << 10)],
)  # fmt: skip
def test_blocks_grow_with_the_threads_as_far_as_memory_goes(threads, budget, expected):
    def work(_job, _task, control):
        return control.block_bytes

    results = LocalExecutor(threads, budget).run(work, None, iter(range(threads)), threads, Control())
    assert {done.result for done in results} == {expected}
