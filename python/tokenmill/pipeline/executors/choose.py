"""From the settings to an executor: the module here that has the name in the settings."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tokenmill.errors import ConfigError
from tokenmill.sources.model import MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.pipeline.executors.base import Executor
    from tokenmill.settings.schema import ExecutionConfig
    from tokenmill.sources import InputFile


def read_budget(execution: ExecutionConfig) -> tuple[int, int]:
    """Threads and bytes of memory that this process may use."""
    return execution.threads or 1, execution.memory_budget or (256 << 20)


def find_executor(name: str) -> type[Executor]:
    """The class of `local`, `ray`…: its module is imported only where it is asked for."""
    found: type[Executor] = import_module(f"tokenmill.pipeline.executors.{name}").EXECUTOR
    return found


def check_inputs(executor: Executor, inputs: Sequence[InputFile]) -> None:
    """Raise `ConfigError` for inputs that only this process can read, where others do the work."""
    if not executor.in_process and any(file.format == MEMORY for file in inputs):
        raise ConfigError(
            "data in memory cannot be read by other processes: save it to files first, for example with "
            "save_to_disk, and name those, or use executor='local'"
        )


def choose_executor(execution: ExecutionConfig) -> Executor:
    """The executor of a job; a cluster is contacted only when units are run."""
    return find_executor(execution.executor).make(execution)
