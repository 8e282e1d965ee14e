"""A column predicate such as `lang == "ko" and score > 0.5`, parsed once and asked of whole columns.

The language is a small part of Python's expressions: names (dots lead into objects), strings, numbers, booleans,
`None`, comparisons, `in`, `and`, `or`, `not`. A value of another kind than the constant compares as unknown, and what is
unknown is not kept.
"""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: pc.equal,
    ast.NotEq: pc.not_equal,
    ast.Lt: pc.less,
    ast.LtE: pc.less_equal,
    ast.Gt: pc.greater,
    ast.GtE: pc.greater_equal,
}
_MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


@dataclass(frozen=True)
class Predicate:
    """A checked expression; `columns` are the fields that a source must give."""

    text: str
    tree: ast.expr
    columns: tuple[str, ...]

    def keep(self, columns: Mapping[str, Any]) -> Mask:
        """Which documents of a block the predicate is true for."""
        return _mask(self.tree, columns)

    # Expression trees are no values; the text says it all.
    def __reduce__(self) -> tuple[Any, ...]:
        return parse_predicate, (self.text,)


def parse_predicate(text: str) -> Predicate:
    """`"lang == 'ko'"` -> a predicate over the column `lang`; raises `ConfigError` that shows the place."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ConfigError(f"where: {text!r} cannot be read at character {error.offset}: {error.msg}") from None
    names: dict[str, None] = {}
    _check(tree, text, names)
    return Predicate(text, tree, tuple(names))


def _check(node: ast.expr, text: str, names: dict[str, None]) -> None:
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            _check(value, text, names)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _check(node.operand, text, names)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        names[_column_and_constant(node, text)[0]] = None
    elif isinstance(node, ast.Name | ast.Attribute):
        names[_name(node)] = None
    else:
        shown = ast.get_source_segment(text, node) or text
        raise ConfigError(
            f"where: {shown!r} is not understood; write comparisons of one column with a constant, such as "
            "\"lang == 'ko' and score > 0.5\", with and, or, not, in, is None"
        )


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise ConfigError("where: a column is a name, or names joined by dots")


def _column_and_constant(node: ast.Compare, text: str) -> tuple[str, type[ast.cmpop], Any]:
    """`0.5 < score` and `score > 0.5` both give `("score", Gt, 0.5)`."""
    left, right, kind = node.left, node.comparators[0], type(node.ops[0])
    if isinstance(right, ast.Name | ast.Attribute) and kind not in {ast.In, ast.NotIn}:
        left, right, kind = right, left, _MIRRORED.get(kind, kind)
    try:
        value = ast.literal_eval(right)
    except (ValueError, TypeError):
        raise ConfigError(f"where: {text!r} must compare a column with a constant") from None
    if kind in {ast.In, ast.NotIn} and not (isinstance(value, list | tuple | set) and value):
        raise ConfigError(f"where: {text!r}: after `in` comes a list of constants, such as ['ko', 'en']")
    if kind in {ast.Is, ast.IsNot} and value is not None:
        raise ConfigError(f"where: {text!r}: `is` is for None; compare with ==")
    return _name(left), kind, value


def _mask(node: ast.expr, columns: Mapping[str, Any]) -> Mask:
    if isinstance(node, ast.BoolOp):
        join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
        masks = [_mask(value, columns) for value in node.values]
        result = masks[0]
        for mask in masks[1:]:
            result = join(result, mask)
        return result
    if isinstance(node, ast.UnaryOp):
        return ~_mask(node.operand, columns)
    if isinstance(node, ast.Compare):
        return _compare(*_column_and_constant(node, ""), columns)
    return _known(columns[_name(node)].booleans())


def _compare(name: str, kind: type[ast.cmpop], value: Any, columns: Mapping[str, Any]) -> Mask:
    column = columns[name]
    if value is None:
        null = _known(column.is_null())
        return null if kind in {ast.Is, ast.Eq} else ~null
    if kind in {ast.In, ast.NotIn}:
        found = np.zeros(len(column.is_null()), dtype=bool)
        for item in value:
            found |= _compare(name, ast.Eq, item, columns)
        return found if kind is ast.In else ~found & ~_known(column.is_null())
    if isinstance(value, bool):
        values = column.booleans()
    else:
        values = column.strings() if isinstance(value, str) else column.numbers()
    return _known(_COMPARE[kind](values, pa.scalar(value)))


def _known(values: pa.Array) -> Mask:
    mask: Mask = np.asarray(pc.fill_null(values, False))  # noqa: FBT003 - pyarrow's own signature
    return mask
