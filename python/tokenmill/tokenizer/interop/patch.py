"""`patch_transformers()`: fast tokenizers that transformers loads afterwards encode with our core."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Self

from tokenmill.base.console import logs
from tokenmill.tokenizer.interop.hf import import_fast_class
from tokenmill.tokenizer.interop.hf_backend import CoreBackend
from tokenmill.tokenizer.interop.hf_rows import give_rows

if TYPE_CHECKING:
    from types import TracebackType


def patch_transformers(*, compare: bool = True) -> Patch:
    """From now on, fast tokenizers of transformers run on our core where it supports them.

    The first documents that a tokenizer sees are also encoded by its own engine; should an id differ, that
    tokenizer goes back to its own engine, and a line says so. One that our core does not support stays as it
    was, which a line says too.

    Args:
        compare: Compare the first documents of each tokenizer with its own engine.

    Returns:
        The patch: use it in a `with`, or call its `undo`. Tokenizers loaded meanwhile keep the core.

    Raises:
        MissingExtraError: transformers is not installed.

    Example:
        >>> import tokenmill
        >>> tokenmill.train(iter(["low lower lowest"] * 9), 261, progress=False).save("my-tokenizer")
        >>> with tokenmill.patch_transformers():
        ...     from transformers import AutoTokenizer
        ...     tokenizer = AutoTokenizer.from_pretrained("my-tokenizer")
        >>> tokenizer("low lower")["input_ids"]
        [258, 260, 82]
    """
    patched = import_fast_class()
    logs.configure()
    return Patch(patched, compare=compare)


class Patch:
    """A patch in force; `undo` ends it."""

    def __init__(self, patched: Any, *, compare: bool) -> None:
        self._class = patched
        self._init = patched.__init__
        self._in_force = True

        @wraps(patched.__init__)
        def __init__(tokenizer: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
            self._init(tokenizer, *arguments, **options)
            # The one seam that transformers has; whoever patched later may be undone later too.
            if self._in_force and not isinstance(tokenizer._tokenizer, CoreBackend):  # noqa: SLF001
                tokenizer._tokenizer = CoreBackend(tokenizer._tokenizer, compare=compare)  # noqa: SLF001
                give_rows(tokenizer)

        self._wrapped = patched.__init__ = __init__

    def undo(self) -> None:
        """Restore transformers; a second call does nothing."""
        self._in_force = False
        if self._class.__init__ is self._wrapped:
            self._class.__init__ = self._init

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()
