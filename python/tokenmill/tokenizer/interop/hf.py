"""`Tokenizer.as_hf()` and `patch_transformers()`: objects of transformers that encode with our core."""

from __future__ import annotations

import tempfile
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Self

from tokenmill.base import logs
from tokenmill.errors import MissingExtraError, TokenizerError
from tokenmill.tokenizer.interop.hf_backend import CoreBackend

if TYPE_CHECKING:
    from tokenmill.tokenizer.tokenizer import Tokenizer


def to_hf(tokenizer: Tokenizer, **options: Any) -> Any:
    """Return the tokenizer as transformers loads it from our files, with our core as its backend."""
    recipe = tokenizer.recipe
    fast_class = _import_fast_class()
    if recipe.python is not None:
        from transformers import PreTrainedTokenizerBase

        if isinstance(recipe.python, PreTrainedTokenizerBase):
            return recipe.python
        raise TokenizerError(
            f"{recipe.source}: a {type(recipe.python).__name__} has no tokenizer.json for transformers"
        )
    with tempfile.TemporaryDirectory(prefix="tokenmill-hf-") as folder:
        tokenizer.save(folder)
        loaded = fast_class.from_pretrained(folder, **options)
    # The folder is gone; messages and saved files name the source of the tokenizer.
    loaded.name_or_path = recipe.source
    loaded.init_kwargs["name_or_path"] = recipe.source
    if tokenizer.strategy.name == "native":
        _install(loaded, compare=False)
    return loaded


def patch_transformers(*, compare: bool = True) -> Patch:
    """Let fast tokenizers that transformers loads from now on run on our core where it supports them.

    The first documents that a tokenizer sees are also encoded by its own engine. If an id differs, that
    tokenizer returns to its own engine and an error is logged. An unsupported tokenizer stays as it was,
    with a warning.

    Args:
        compare: Compare the first documents of each tokenizer with its own engine.

    Returns:
        The patch: use it in a `with`, or call its `undo`. Tokenizers loaded meanwhile keep the core.

    Raises:
        MissingExtraError: transformers is not installed.

    Example:
        >>> import tokenmill
        >>> tokenmill.train_from_iterator(["low lower lowest"] * 9, 261, progress=False).save("my-tokenizer")
        >>> with tokenmill.patch_transformers():
        ...     from transformers import AutoTokenizer
        ...     tokenizer = AutoTokenizer.from_pretrained("my-tokenizer")
        >>> tokenizer("low lower")["input_ids"]
        [258, 260, 82]
    """
    patched = _import_fast_class()
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
            # A patch that was made later may be undone later too.
            if self._in_force and not isinstance(tokenizer._tokenizer, CoreBackend):  # noqa: SLF001
                _install(tokenizer, compare=compare)

        self._wrapped = patched.__init__ = __init__

    def undo(self) -> None:
        """Restore transformers; a second call does nothing."""
        self._in_force = False
        if self._class.__init__ is self._wrapped:
            self._class.__init__ = self._init

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()


class ListColumn(list[Any]):
    """One row for each text, which Arrow converts at once.

    `datasets.map` converts every list to Arrow int by int, which takes longer than encoding the text.
    """

    def __arrow_array__(self, type: Any = None) -> Any:  # noqa: A002 - Arrow's name for it
        """Return what `pa.array` makes of the plain list."""
        import numpy as np
        import pyarrow as pa

        from tokenmill._core import flatten_lists

        flat = flatten_lists(self) if type is None else None
        if flat is None or not flat[0].nbytes or flat[1][-1] > np.iinfo(np.int32).max:
            return pa.array(list(self), type)
        ids = pa.Array.from_buffers(pa.int64(), len(flat[0]), [None, pa.py_buffer(flat[0])])
        return pa.ListArray.from_arrays(pa.array(np.asarray(flat[1]), pa.int32()), ids)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a plain list."""
        return list, (list(self),)


class _ReturnsColumns:
    """Mixed into a class of transformers: calls return `ListColumn`s."""

    def __call__(self, *texts: Any, **options: Any) -> Any:
        encoded = super().__call__(*texts, **options)  # type: ignore[misc]
        for name, column in encoded.items():
            if type(column) is list and column and type(column[0]) is list:
                encoded[name] = ListColumn(column)
        return encoded

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        made: tuple[Any, ...] = super().__reduce_ex__(max(protocol, 2))  # type: ignore[assignment]
        return _make_empty, (type(self).__mro__[2],), *made[2:]


@cache
def _make_class(base: Any) -> Any:
    """Return the subclass with such columns, under the name of its base, which saved files contain."""
    names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    return type(base.__name__, (_ReturnsColumns, base), names)


def _make_empty(base: Any) -> Any:
    made = _make_class(base)
    return made.__new__(made)


def _install(tokenizer: Any, *, compare: bool) -> None:
    """Put our core behind a tokenizer of transformers; `_tokenizer` is its only seam."""
    tokenizer._tokenizer = CoreBackend(tokenizer._tokenizer, compare)  # noqa: SLF001
    base: Any = type(tokenizer)
    if not issubclass(base, _ReturnsColumns):
        tokenizer.__class__ = _make_class(base)


def _import_fast_class() -> Any:
    try:
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        if "is required for a normal functioning" in str(error):
            reason = str(error).partition("\n")[0]
            raise TokenizerError(f"transformers refuses to load: {reason}") from error
        raise MissingExtraError.of("transformers", "hf", "a tokenizer of transformers") from error
    return PreTrainedTokenizerFast
