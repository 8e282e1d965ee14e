"""From the settings to an executor, which is the module here of the name that the settings give."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenmill.jobs.executors.base import Executor
    from tokenmill.settings.schema import ExecutionConfig


def budget(execution: ExecutionConfig) -> tuple[int, int]:
    """Threads and bytes of memory that this process may use."""
    return execution.threads or 1, execution.memory_budget or (256 << 20)


def find_executor(name: str) -> type[Executor]:
    """The class of `local`, `ray`…: its module is imported only where it is asked for."""
    found: type[Executor] = import_module(f"tokenmill.jobs.executors.{name}").EXECUTOR
    return found


def choose_executor(execution: ExecutionConfig) -> Executor:
    """The executor of a job; a cluster is asked for only when units are run."""
    return find_executor(execution.executor).make(execution)
