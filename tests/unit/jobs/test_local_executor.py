"""Threads of this process: who throws the results away hears of no other failure."""

import gc
import threading

from tokenmill.jobs.executors.base import RunContext
from tokenmill.jobs.executors.local import LocalExecutor


def test_a_unit_that_fails_after_its_reader_has_failed_prints_nothing(capsys):
    taken = threading.Event()

    def work(_job, task, _control):
        if task == "slow":
            taken.wait(10)
            raise OSError(28, "No space left on device")
        return task

    results = LocalExecutor(2, 1 << 30).run(work, None, iter(["quick", "slow"]), 2, RunContext())
    assert next(results).result == "quick"
    taken.set()
    # As when the loop over them has raised something: Python prints what a generator raises when it is collected.
    del results
    gc.collect()
    assert capsys.readouterr().err == ""
