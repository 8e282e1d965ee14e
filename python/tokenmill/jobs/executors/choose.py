"""From the settings to an executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.jobs.executors.local import LocalExecutor

if TYPE_CHECKING:
    from tokenmill.jobs.executors.base import Executor
    from tokenmill.settings.schema import ExecutionConfig


def budget(execution: ExecutionConfig) -> tuple[int, int]:
    """Threads and bytes of memory that this process may use."""
    return execution.threads or 1, execution.memory_budget or (256 << 20)


def choose_executor(execution: ExecutionConfig) -> Executor:
    """`local` unless the settings say `ray`; a cluster is asked for only when units are run."""
    if execution.executor == "ray":
        from tokenmill.jobs.executors.ray import RayExecutor

        return RayExecutor(
            execution.ray_address or "auto",
            batch_size=execution.batch_size,
            writer_batch_size=execution.writer_batch_size,
        )
    threads, memory_budget = budget(execution)
    return LocalExecutor(
        threads=threads,
        memory_budget=memory_budget,
        batch_size=execution.batch_size,
        writer_batch_size=execution.writer_batch_size,
        keep_in_memory=bool(execution.keep_in_memory),
    )
