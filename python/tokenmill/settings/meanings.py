"""What each setting means: the string under its field in the schema, read when somebody asks for help.

They are read from the source, since Python itself throws them away.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenmill.settings.section import Section


def meaning(model: type[Section], key: str) -> str:
    """`meaning(SourceConfig, "inputs")` -> `"Files, globs, directories or URLs."`."""
    return _meanings(model.__module__)[model.__name__].get(key, "")


@cache
def _meanings(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return {node.name: dict(_described(node)) for node in classes}


def _described(node: ast.ClassDef) -> list[tuple[str, str]]:
    """Every annotated name that a string follows, with that string."""
    return [
        (field.target.id, inspect.cleandoc(text.value.value))
        for field, text in pairwise(node.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    ]
