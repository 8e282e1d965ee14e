"""An extension of griffe, the site's reader of docstrings: a paragraph that begins with `>>>` is code."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:(?<=\n\n)|\A)( *)(>>> .*?)(?=\n\s*\n|\s*\Z)", re.DOTALL)


class DoctestBlocks(griffe.Extension):
    """Fence examples, so that their brackets are not read as links."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of any object."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"\1```pycon\n\1\2\n\1```", obj.docstring.value)
