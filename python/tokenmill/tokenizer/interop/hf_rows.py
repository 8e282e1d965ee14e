"""Columns that a call of transformers returns: ordinary lists, which Arrow takes over in one go.

`datasets.map` turns every list that it is given into Arrow, int by int, which takes longer than encoding
the text. A list that knows how to become an array spares it the work.
"""

from __future__ import annotations

from functools import cache
from typing import Any


class ListColumn(list[Any]):
    """One row for each text."""

    def __arrow_array__(self, type: Any = None) -> Any:  # noqa: A002 - Arrow's name for it
        """What `pa.array` makes of the plain list, from the ints that are in it now."""
        import numpy as np
        import pyarrow as pa

        from tokenmill._core import flatten_lists

        flat = flatten_lists(self) if type is None else None
        if flat is None or not flat[0].nbytes or flat[1][-1] > np.iinfo(np.int32).max:
            return pa.array(list(self), type)
        ids = pa.Array.from_buffers(pa.int64(), len(flat[0]), [None, pa.py_buffer(flat[0])])
        return pa.ListArray.from_arrays(pa.array(np.asarray(flat[1]), pa.int32()), ids)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as a plain list."""
        return list, (list(self),)


class _GivesRows:
    """What is put before a class of transformers; all else stays that class's."""

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
def make_class(base: Any) -> Any:
    """The class with such columns, under its own name, since files that are saved say it."""
    names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    return type(base.__name__, (_GivesRows, base), names)


def _make_empty(base: Any) -> Any:
    made = make_class(base)
    return made.__new__(made)


def give_rows(tokenizer: Any) -> None:
    """Let a tokenizer of transformers give such columns from now on."""
    base: Any = type(tokenizer)
    if not issubclass(base, _GivesRows):
        tokenizer.__class__ = make_class(base)
