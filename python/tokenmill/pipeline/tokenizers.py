"""The tokenizer of a job, if need be loaded while the rest of the process still starts."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import ConfigError
from tokenmill.tokenizer.loading import needs_python
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill.settings.schema import JobConfig


def begin_loading(config: JobConfig) -> Future[Any] | None:
    """Start to load a tokenizer: the core reads its files in a thread while this one imports modules.

    None where files are not enough (a hub, a Python class), since that thread would import what this one
    does: it is loaded later.
    """
    settings = config.tokenizer
    path = Path(settings.tokenizer_name or "")
    if settings.tokenizer_name is None or settings.strategy not in {"auto", "native"} or not path.exists():
        return None
    if needs_python(path):
        return None
    pool = ThreadPoolExecutor(1, thread_name_prefix="tokenmill-load")
    try:
        return pool.submit(_load, config)
    finally:
        pool.shutdown(wait=False)


def _load(config: JobConfig) -> Any:
    tokenizer = load_tokenizer(config)
    _ = tokenizer.fingerprint  # which takes a while; the tokenizer keeps it
    return tokenizer


def load_tokenizer(config: JobConfig, tokenizer: Any = None) -> Any:
    """The tokenizer of a config, or the object that was handed in, or what `begin_loading` has begun to load.

    Raises `ConfigError` if there is none.
    """
    settings = config.tokenizer
    if isinstance(tokenizer, Future):
        return tokenizer.result()
    if tokenizer is not None and hasattr(tokenizer, "fingerprint"):
        return tokenizer
    source = tokenizer if tokenizer is not None else settings.tokenizer_name
    if source is None:
        raise ConfigError("no tokenizer: give --tokenizer NAME (a directory, a file or a hub id)")
    return Tokenizer.load(
        source, pattern=settings.pattern, strategy=settings.strategy, num_proc=config.execution.num_proc
    )
