"""A predicate over columns, such as `lang == "ko" and score >= 0.5`, evaluated a block at a time.

The text is parsed as a Python expression and only a handful of its nodes are understood, so nothing
in it can run. A comparison asks each column for values of the literal's type; a record that has no
such value is neither true nor false, and is left out unless another part of an `or` keeps it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.base.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.sources.columns import Column

Columns = Mapping[str, "Column"]
Test = Callable[[Columns], Any]

_COMPARE = {
    ast.Eq: pc.equal,
    ast.NotEq: pc.not_equal,
    ast.Lt: pc.less,
    ast.LtE: pc.less_equal,
    ast.Gt: pc.greater,
    ast.GtE: pc.greater_equal,
}
_MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_WORDS = {"null": None, "true": True, "false": False}
_EXAMPLE = 'lang == "ko" and score >= 0.5'
_MAX_LENGTH = 10_000


@dataclass(frozen=True)
class Predicate:
    """A parsed predicate: the columns that it needs, and a mask for a block of them."""

    text: str
    columns: tuple[str, ...] = field(init=False)
    _test: Test = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parser = _Parser(self.text)
        object.__setattr__(self, "_test", parser.parse())
        object.__setattr__(self, "columns", tuple(parser.columns))

    def __reduce__(self) -> tuple[type[Predicate], tuple[str]]:
        return Predicate, (self.text,)

    def mask(self, columns: Columns, length: int) -> NDArray[np.bool_]:
        """Which of `length` documents to keep: `Predicate("n > 1").mask({"n": ...}, 3)` -> [F, T, T]."""
        result = self._test(columns)
        if isinstance(result, pa.Scalar):
            result = pa.array([result.as_py()] * length, pa.bool_())
        mask: NDArray[np.bool_] = pc.fill_null(result, fill_value=False).to_numpy(zero_copy_only=False)
        return mask


class _Parser:
    """One expression to one test; remembers the columns it meets, in order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.columns: dict[str, None] = {}

    def parse(self) -> Test:
        if len(self.text) > _MAX_LENGTH:
            raise ConfigError(
                f"where: an expression of {len(self.text)} characters; at most {_MAX_LENGTH} are read"
            )
        try:
            tree = ast.parse(self.text.strip(), mode="eval")
            return self._test(tree.body)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"where: {self.text!r} is no expression ({error}); write e.g. {_EXAMPLE}"
            ) from error

    def _refuse(self, node: ast.AST, expected: str) -> ConfigError:
        found = ast.get_source_segment(self.text.strip(), node) or type(node).__name__
        return ConfigError(
            f"where: {found!r} in {self.text!r} is not understood; expected {expected}, as in {_EXAMPLE}"
        )

    def _test(self, node: ast.expr) -> Test:
        if isinstance(node, ast.BoolOp):
            join = pc.and_kleene if isinstance(node.op, ast.And) else pc.or_kleene
            return _joined(join, [self._test(value) for value in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._test(node.operand)
            return lambda columns: pc.invert(inner(columns))
        if isinstance(node, ast.Compare):
            return self._chain(node)
        name = self._name(node)
        if name is None:
            raise self._refuse(node, "a comparison, and, or, not, or the name of a boolean field")
        return lambda columns: columns[name].booleans()

    def _chain(self, node: ast.Compare) -> Test:
        """`0 < score <= 1` is two comparisons."""
        sides = [node.left, *node.comparators]
        tests = [self._compare(sides[at], op, sides[at + 1]) for at, op in enumerate(node.ops)]
        return _joined(pc.and_kleene, tests)

    def _compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Test:
        if isinstance(op, ast.In | ast.NotIn):
            return self._member(left, op, right)
        if self._value(left) is None:
            left, right = right, left
            op = _MIRRORED.get(type(op), type(op))()
        value = self._value(left)
        constant = self._constant(right)
        if value is None:
            raise self._refuse(left, "the name of a field on one side")
        if constant.value is None and isinstance(op, ast.Eq | ast.Is | ast.NotEq | ast.IsNot):
            return self._null_test(left, negate=isinstance(op, ast.NotEq | ast.IsNot))
        compare = _COMPARE.get(type(op))
        if compare is None or constant.value is None:
            raise self._refuse(right, "==, !=, <, <=, >, >=, in, or a test for None")
        scalar = self._scalar(constant, right)
        return lambda columns: compare(value(columns, constant.value), scalar)

    def _null_test(self, node: ast.expr, *, negate: bool) -> Test:
        name = self._name(node)
        if name is None:
            raise self._refuse(node, "the name of a field before a test for None")
        if negate:
            return lambda columns: pc.invert(columns[name].is_null())
        return lambda columns: columns[name].is_null()

    def _member(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Test:
        """`lang in ["ko", "en"]`, or a part of a string: `"http" in url`."""
        negate = isinstance(op, ast.NotIn)
        if isinstance(right, ast.List | ast.Tuple | ast.Set):
            value = self._value(left)
            if value is None:
                raise self._refuse(left, "the name of a field before 'in'")
            test = _joined(pc.or_kleene, [self._equal(value, item) for item in right.elts])
        else:
            constant, name = self._constant(left), self._name(right)
            if name is None or not isinstance(constant.value, str):
                raise self._refuse(right, "a list after 'in', or the name of a field of strings")
            test = lambda columns: pc.match_substring(columns[name].strings(), constant.value)  # noqa: E731
        return (lambda columns: pc.invert(test(columns))) if negate else test

    def _equal(self, value: Callable[[Columns, Any], Any], node: ast.expr) -> Test:
        constant = self._constant(node)
        scalar = self._scalar(constant, node)
        return lambda columns: pc.equal(value(columns, constant.value), scalar)

    def _value(self, node: ast.expr) -> Callable[[Columns, Any], Any] | None:
        """How to get a column's values of a literal's type; None if `node` is no field."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
            measured = self._name(node.args[0]) if len(node.args) == 1 and not node.keywords else None
            if measured is None:
                raise self._refuse(node, "len of one field")
            return lambda columns, _literal: pc.utf8_length(columns[measured].strings())
        name = self._name(node)
        return None if name is None else lambda columns, literal: _typed(columns[name], literal)

    def _name(self, node: ast.expr) -> str | None:
        """`lang`, `meta.lang` or `field("any name")`."""
        if isinstance(node, ast.Name) and node.id not in _WORDS:
            name = node.id
        elif isinstance(node, ast.Attribute) and (outer := self._name_of(node.value)) is not None:
            name = f"{outer}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "field":
            if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Constant):
                raise self._refuse(node, 'field("name")')
            name = str(node.args[0].value)
        else:
            return None
        self.columns[name] = None
        return name

    def _name_of(self, node: ast.expr) -> str | None:
        """A name without taking note of it: only the whole path is a column."""
        before = dict(self.columns)
        name = self._name(node)
        self.columns = before
        return name

    def _constant(self, node: ast.expr) -> ast.Constant:
        if isinstance(node, ast.Name) and node.id in _WORDS:
            return ast.Constant(_WORDS[node.id])
        if (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.USub)
            and isinstance(node.operand, ast.Constant)
        ):
            value = node.operand.value
            if isinstance(value, int | float) and not isinstance(value, bool):
                return ast.Constant(-value)
        if isinstance(node, ast.Constant) and (
            node.value is None or isinstance(node.value, str | int | float)
        ):
            return node
        raise self._refuse(node, "a string, a number, True, False or None")

    def _scalar(self, constant: ast.Constant, node: ast.expr) -> pa.Scalar:
        if constant.value is None:
            raise self._refuse(node, "a value; test for None with 'is None'")
        try:
            return pa.scalar(constant.value)
        except (pa.ArrowException, OverflowError) as error:
            raise ConfigError(f"where: {constant.value!r} does not fit 64 bits") from error


def _typed(column: Column, literal: Any) -> pa.Array:
    if isinstance(literal, bool):
        return column.booleans()
    return column.strings() if isinstance(literal, str) else column.numbers()


def _joined(join: Callable[[Any, Any], Any], tests: list[Test]) -> Test:
    if not tests:
        return lambda _columns: pa.scalar(False)  # noqa: FBT003

    def test(columns: Columns) -> Any:
        result = tests[0](columns)
        for other in tests[1:]:
            result = join(result, other(columns))
        return result

    return test
