"""The tokenizer of a job, if need be loaded while the rest of the process still starts."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.dataclass import dataclass
from tokenmill.errors import ConfigError
from tokenmill.tokenizer.loading import only_python
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenmill.config.schema import JobConfig


@dataclass(frozen=True)
class Ahead:
    """A tokenizer whose files are being read with nothing known but its name."""

    name: str
    future: Future[Any]


def begin_named(name: str) -> Ahead | None:
    """A tokenizer on its way: the core reads its files beside this thread, which has modules to import.

    None where more than files is to be asked, a hub or a Python class: that is done in its turn, for a thread
    beside this one would import what this one does.
    """
    return Ahead(name, _begun(partial(Tokenizer.load, name))) if _only_files(name) else None


def begin_loading(config: JobConfig, ahead: Ahead | None = None) -> Future[Any] | None:
    """The same as the settings ask for it: what was begun `ahead`, if they ask for that."""
    settings = config.tokenizer
    name = settings.tokenizer_name
    if name is None or settings.strategy not in {"auto", "native"}:
        return None
    plain = settings.strategy == "auto" and settings.pattern is None and config.execution.num_proc is None
    if ahead is not None and ahead.name == name and plain:
        return ahead.future
    return _begun(partial(load_tokenizer, config)) if _only_files(name) else None


def _only_files(name: str) -> bool:
    path = Path(name)
    return path.exists() and not only_python(path)


def _begun(load: Callable[[], Any]) -> Future[Any]:
    pool = ThreadPoolExecutor(1, thread_name_prefix="tokenmill-load")
    begun = pool.submit(_loaded, load)
    pool.shutdown(wait=False)
    return begun


def _loaded(load: Callable[[], Any]) -> Any:
    tokenizer = load()
    _ = tokenizer.fingerprint  # which takes a while; the tokenizer keeps it
    return tokenizer


def load_tokenizer(config: JobConfig, tokenizer: Any = None) -> Any:
    """The tokenizer of a config, or the object that was handed in, or what `begin_loading` has begun."""
    settings = config.tokenizer
    if isinstance(tokenizer, Future):
        return tokenizer.result()
    if tokenizer is not None and hasattr(tokenizer, "fingerprint"):
        return tokenizer
    source = tokenizer if tokenizer is not None else settings.tokenizer_name
    if source is None:
        raise ConfigError("no tokenizer: give --tokenizer NAME (a directory, a file or a hub id)")
    return Tokenizer.load(
        source,
        pattern=settings.pattern,
        strategy=settings.strategy,
        num_proc=config.execution.num_proc,
    )
