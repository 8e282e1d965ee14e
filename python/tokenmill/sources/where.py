"""A predicate over columns, such as `lang == "ko" and score >= 0.5`, evaluated a block at a time.

The text is parsed as a Python expression, and everything but the grammar of docs/sources.md is refused, so
nothing in it can run. A comparison asks each column for values of the literal's type; a record that has no
such value is neither true nor false, and is left out unless another part of an `or` keeps it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.errors import ConfigError
from tokenmill.sources.fields import split_path

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.sources.columns import SourceColumn

Columns = Mapping[str, "SourceColumn"]
Test = Callable[[Columns], Any]
Literal = str | int | float | bool | None

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
        parser = _Parser(self.text.strip())
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


@dataclass(frozen=True, slots=True)
class _Field:
    """A field, or its length in characters."""

    name: str
    measured: bool = False

    def values(self, columns: Columns, literal: Literal) -> pa.Array:
        """Its values of the literal's type, null elsewhere."""
        column = columns[self.name]
        if self.measured:
            return pc.utf8_length(column.strings())
        if isinstance(literal, bool):
            return column.booleans()
        return column.strings() if isinstance(literal, str) else column.numbers()


class _Parser:
    """One expression to one test; remembers the columns it meets, in order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.columns: dict[str, None] = {}

    def parse(self) -> Test:
        if len(self.text) > _MAX_LENGTH:
            raise ConfigError(
                f"where: the expression has {len(self.text)} characters; the limit is {_MAX_LENGTH}"
            )
        try:
            return self._parse_test(ast.parse(self.text, mode="eval").body)
        except ConfigError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConfigError(
                f"where: {self.text!r} is not an expression ({error}); write e.g. {_EXAMPLE}"
            ) from error

    def _refuse(self, node: ast.expr, expected: str) -> ConfigError:
        found = ast.get_source_segment(self.text, node) or type(node).__name__
        line = self.text.splitlines()[node.lineno - 1].encode()
        place = len(line[: node.col_offset].decode("utf-8", "ignore")) + 1
        where = f"character {place}" + (f" of line {node.lineno}" if node.lineno > 1 else "")
        return ConfigError(
            f"where: {found!r} at {where} of {self.text!r} is not understood; expected {expected}, as in "
            f"{_EXAMPLE}"
        )

    def _parse_test(self, node: ast.expr) -> Test:
        if isinstance(node, ast.BoolOp):
            join = pc.and_kleene if isinstance(node.op, ast.And) else pc.or_kleene
            return _join_tests(join, [self._parse_test(value) for value in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _invert(self._parse_test(node.operand))
        if isinstance(node, ast.Compare):
            # `0 < score <= 1` is two comparisons.
            sides = [node.left, *node.comparators]
            tests = [self._parse_comparison(sides[at], op, sides[at + 1]) for at, op in enumerate(node.ops)]
            return _join_tests(pc.and_kleene, tests)
        name = self._parse_name(node)
        if name is None:
            raise self._refuse(node, "a comparison, and, or, not, or the name of a boolean field")
        return lambda columns: columns[name].booleans()

    def _parse_comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Test:
        if isinstance(op, ast.In | ast.NotIn):
            test = self._parse_membership(left, right)
            return _invert(test) if isinstance(op, ast.NotIn) else test
        found = self._parse_field(left)
        if found is None:
            self._parse_literal(left)
            found, left, right = self._parse_field(right), right, left
            op = _MIRRORED.get(type(op), type(op))()
        if found is None:
            raise self._refuse(left, "the name of a field on one side")
        if self._parse_literal(right) is None and isinstance(op, ast.Eq | ast.Is | ast.NotEq | ast.IsNot):
            return self._parse_null_test(left, found, negate=isinstance(op, ast.NotEq | ast.IsNot))
        if type(op) not in _COMPARE:
            raise self._refuse(right, "None after 'is'")
        return self._parse_literal_test(_COMPARE[type(op)], found, right)

    def _parse_null_test(self, node: ast.expr, found: _Field, *, negate: bool) -> Test:
        if found.measured:
            raise self._refuse(node, "the name of a field before a test for None")
        test: Test = lambda columns: columns[found.name].is_null()  # noqa: E731
        return _invert(test) if negate else test

    def _parse_membership(self, left: ast.expr, right: ast.expr) -> Test:
        """`lang in ["ko", "en"]`, or a part of a string: `"http" in url`."""
        if isinstance(right, ast.List | ast.Tuple):
            found = self._parse_field(left)
            if found is None:
                raise self._refuse(left, "the name of a field before 'in'")
            return _join_tests(
                pc.or_kleene, [self._parse_literal_test(pc.equal, found, item) for item in right.elts]
            )
        part, name = self._parse_literal(left), self._parse_name(right)
        if name is None or not isinstance(part, str):
            raise self._refuse(right, "a list after 'in', or a string before it and a field after it")
        return lambda columns: pc.match_substring(columns[name].strings(), part)

    def _parse_literal_test(self, compare: Callable[[Any, Any], Any], found: _Field, node: ast.expr) -> Test:
        literal = self._parse_literal(node)
        if literal is None:
            raise self._refuse(node, "a value; test for None with 'is None'")
        if found.measured and (isinstance(literal, str) or literal is True or literal is False):
            raise self._refuse(node, "a number to compare a length with")
        try:
            scalar = pa.scalar(literal)
        except (pa.ArrowException, OverflowError) as error:
            raise ConfigError(f"where: {literal!r} does not fit in 64 bits") from error
        return lambda columns: compare(found.values(columns, literal), scalar)

    def _parse_field(self, node: ast.expr) -> _Field | None:
        """A field or its length; None if `node` is something else."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
            name = self._parse_name(node.args[0]) if len(node.args) == 1 and not node.keywords else None
            if name is None:
                raise self._refuse(node, "len of one field")
            return _Field(name, measured=True)
        name = self._parse_name(node)
        return None if name is None else _Field(name)

    def _parse_name(self, node: ast.expr) -> str | None:
        """`lang`, `meta.lang` or `field("any name")`; None if `node` is something else."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "field":
            quoted = node.args[0] if len(node.args) == 1 and not node.keywords else None
            if not isinstance(quoted, ast.Constant) or not isinstance(quoted.value, str):
                raise self._refuse(node, 'field("name")')
            name = quoted.value
            try:
                split_path(name)
            except ConfigError as error:
                raise self._refuse(quoted, "a name in which no part between dots is empty") from error
        else:
            keys = []
            inner = node
            while isinstance(inner, ast.Attribute):
                keys.append(inner.attr)
                inner = inner.value
            if not isinstance(inner, ast.Name) or inner.id in _WORDS:
                return None
            keys.append(inner.id)
            if any(key.startswith("__") for key in keys):
                raise self._refuse(node, 'a name in quotes where it begins with "__": field("__name")')
            name = ".".join(reversed(keys))
        self.columns[name] = None
        return name

    def _parse_literal(self, node: ast.expr) -> Literal:
        if isinstance(node, ast.Name) and node.id in _WORDS:
            return _WORDS[node.id]
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = node.operand.value if isinstance(node.operand, ast.Constant) else None
            if isinstance(value, int | float) and not isinstance(value, bool):
                return -value
        raise self._refuse(node, "a string, a number, True, False or None")


def _invert(test: Test) -> Test:
    return lambda columns: pc.invert(test(columns))


def _join_tests(join: Callable[[Any, Any], Any], tests: list[Test]) -> Test:
    if not tests:
        return lambda _columns: pa.scalar(False)  # noqa: FBT003

    def test(columns: Columns) -> Any:
        result = tests[0](columns)
        for other in tests[1:]:
            result = join(result, other(columns))
        return result

    return test
