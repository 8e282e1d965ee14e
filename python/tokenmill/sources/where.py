"""Columns beside the text, and the predicate over them, such as `lang == "ko" and score >= 0.5`.

The predicate is parsed as a Python expression. Everything outside the grammar of docs/sources.md is rejected,
so nothing in it can run. A comparison selects the values of the literal's type; a record without such a value
is neither true nor false, and is left out unless another part of an `or` keeps it. So the result for a record
never depends on the other records of its block.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.errors import ConfigError
from tokenmill.sources.columnar import is_text
from tokenmill.sources.fields import split_path

if TYPE_CHECKING:
    from numpy.typing import NDArray

Columns = Mapping[str, "Column"]
Test = Callable[[Columns], Any]
Literal = str | int | float | bool | None


class Op(NamedTuple):
    """A comparison of two values, and of an Arrow array with a value."""

    python: Callable[[Any, Any], bool]
    arrow: Callable[[Any, Any], pa.Array]


_COMPARE = {
    ast.Eq: Op(operator.eq, pc.equal),
    ast.NotEq: Op(operator.ne, pc.not_equal),
    ast.Lt: Op(operator.lt, pc.less),
    ast.LtE: Op(operator.le, pc.less_equal),
    ast.Gt: Op(operator.gt, pc.greater),
    ast.GtE: Op(operator.ge, pc.greater_equal),
}
_MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_WORDS = {"null": None, "true": True, "false": False}
_EXAMPLE = 'lang == "ko" and score >= 0.5'
_MAX_LENGTH = 10_000
_FALSE, _TRUE, _NUMBER, _STRING = 1, 2, 3, 4  # the core's kinds of JSON values; 0 is null or missing
_NUMBER_PATTERN = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"
_INTEGER_PATTERN = r"^[+-]?\d{1,38}$"
# Holds every 64-bit integer and the longer ones of text formats, so that large numbers compare exactly.
_INTEGER = pa.decimal128(38, 0)
_INTEGER_LIMIT = 10**38


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of a text format: the kind of each value and the characters of strings and numbers.

    CSV values are not `typed`: a value that reads as a number or boolean is also one.
    """

    kinds: NDArray[np.uint8]
    values: pa.LargeStringArray
    typed: bool

    def _keep(self, *kinds: int) -> pa.LargeStringArray:
        wanted = np.isin(self.kinds, kinds) if self.typed else self.kinds != 0
        return pc.if_else(pa.array(wanted), self.values, pa.scalar(None, pa.large_string()))

    def numbers(self) -> tuple[pa.Array, pa.Array]:
        """Return the integers and the other numbers as doubles, each null elsewhere."""
        found = self._keep(_NUMBER)
        if not self.typed:
            found = _keep_where(pc.match_substring_regex(found, _NUMBER_PATTERN), found)
        whole = pc.match_substring_regex(found, _INTEGER_PATTERN)
        integers, floats = _keep_where(whole, found), _keep_where(pc.invert(whole), found)
        return integers.cast(_INTEGER), floats.cast(pa.float64())

    def strings(self) -> pa.Array:
        """Return the strings, null elsewhere; of CSV every value but an empty one without quotes."""
        return self._keep(_STRING)

    def booleans(self) -> pa.Array:
        """Return the booleans, null elsewhere; of CSV `true` and `false` in any case."""
        if self.typed:
            return pa.array(self.kinds == _TRUE, mask=~np.isin(self.kinds, (_FALSE, _TRUE)))
        lower = pc.utf8_lower(self.values)
        known = pc.is_in(lower, pa.array(["true", "false"], pa.large_string()))
        return _keep_where(known, pc.equal(lower, "true"))

    def is_null(self) -> pa.BooleanArray:
        """Return where the field is missing or null."""
        return pa.array(self.kinds == 0)

    def labels(self) -> pa.LargeStringArray:
        """Return strings and numbers as they are printed, for use as ids."""
        return self._keep(_NUMBER, _STRING)


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """A column of an Arrow type."""

    array: pa.Array

    def _cast_if(self, wanted: bool, kind: pa.DataType) -> pa.Array:  # noqa: FBT001
        return self.array.cast(kind) if wanted else pa.nulls(len(self.array), kind)

    def numbers(self) -> tuple[pa.Array, pa.Array]:
        """Return the integers and the other numbers as doubles, each null elsewhere."""
        kind = self.array.type
        whole = pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)
        number = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        return self._cast_if(whole, _INTEGER), self._cast_if(number and not whole, pa.float64())

    def strings(self) -> pa.Array:
        """Return the column if it holds strings."""
        return self._cast_if(is_text(self.array.type), pa.large_string())

    def booleans(self) -> pa.Array:
        """Return the column if it is boolean."""
        return self._cast_if(pa.types.is_boolean(self.array.type), pa.bool_())

    def is_null(self) -> pa.BooleanArray:
        """Return where there is no value."""
        return self.array.is_null()

    def labels(self) -> pa.LargeStringArray:
        """Return strings and numbers as they are printed, for use as ids."""
        kind = self.array.type
        wanted = is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
        return self._cast_if(wanted, pa.large_string())


Column = TextColumn | ArrowColumn


def _keep_where(mask: pa.BooleanArray, values: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(mask, fill_value=False), values, pa.scalar(None, values.type))


def _compare(op: Op, column: Column, literal: str | float, *, measured: bool) -> pa.Array:
    """Compare the values of the literal's type, or their lengths; null elsewhere."""
    if isinstance(literal, bool):
        return op.arrow(column.booleans(), literal)
    if isinstance(literal, str):
        return op.arrow(column.strings(), pa.scalar(literal, pa.large_string()))
    counted = ArrowColumn(pc.utf8_length(column.strings())) if measured else column
    integers, floats = counted.numbers()
    return pc.coalesce(_compare_integers(op, integers, literal), _compare_floats(op, floats, literal))


def _compare_integers(op: Op, array: pa.Array, literal: float) -> pa.Array:
    """Compare exactly, as Python does: neither side is rounded."""
    bound = literal
    if isinstance(literal, float) and math.isfinite(literal) and op.python not in {operator.eq, operator.ne}:
        # Integers are below 2.5 if they are below 3, and at most 2.5 if at most 2.
        bound = math.floor(literal) if op.python in {operator.le, operator.gt} else math.ceil(literal)
    if abs(bound) < _INTEGER_LIMIT and bound == int(bound):
        return op.arrow(array, pa.scalar(Decimal(int(bound)), _INTEGER))
    return _answer_all(array, op.python(0, bound))


def _compare_floats(op: Op, array: pa.Array, literal: float) -> pa.Array:
    try:
        near = float(literal)
    except OverflowError:
        near = math.inf if literal > 0 else -math.inf
    if near == literal:
        return op.arrow(array, near)
    # The literal is an integer between two doubles.
    below = near if near < literal else math.nextafter(near, -math.inf)
    if op.python in {operator.lt, operator.le}:
        return pc.less_equal(array, below)
    if op.python in {operator.gt, operator.ge}:
        return pc.greater(array, below)
    return _answer_all(array, op.python is operator.ne)


def _answer_all(array: pa.Array, answer: bool) -> pa.Array:  # noqa: FBT001
    return _keep_where(array.is_valid(), pa.array(np.full(len(array), answer)))


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
        """Return which of `length` documents to keep: `Predicate("n > 1").mask({"n": ...}, 3)`."""
        result = self._test(columns)
        if isinstance(result, pa.Scalar):
            result = pa.array([result.as_py()] * length, pa.bool_())
        mask: NDArray[np.bool_] = pc.fill_null(result, fill_value=False).to_numpy(zero_copy_only=False)
        return mask


class _Parser:
    """Turns an expression into a test; `columns` are the names in it, in order."""

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
        match node:
            case ast.BoolOp(op=op, values=values):
                join = pc.and_kleene if isinstance(op, ast.And) else pc.or_kleene
                return _join_tests(join, [self._parse_test(value) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return _invert(self._parse_test(operand))
            case ast.Compare(left=left, ops=ops, comparators=others):
                # `0 < score <= 1` is two comparisons.
                sides = zip([left, *others], ops, others, strict=False)
                return _join_tests(pc.and_kleene, [self._parse_comparison(*each) for each in sides])
        name = self._parse_name(node)
        if name is None:
            raise self._refuse(node, "a comparison, and, or, not, or the name of a boolean field")
        return lambda columns: columns[name].booleans()

    def _parse_comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Test:
        if isinstance(op, ast.In | ast.NotIn):
            test = self._parse_membership(left, right)
            return _invert(test) if isinstance(op, ast.NotIn) else test
        field_ = self._parse_field(left)
        if field_ is None:
            self._parse_literal(left)
            field_, left, right = self._parse_field(right), right, left
            op = _MIRRORED.get(type(op), type(op))()
        if field_ is None:
            raise self._refuse(left, "the name of a field on one side")
        if self._parse_literal(right) is None and isinstance(op, ast.Eq | ast.Is | ast.NotEq | ast.IsNot):
            name, measured = field_
            if measured:
                raise self._refuse(left, "the name of a field before a test for None")
            is_null: Test = lambda columns: columns[name].is_null()  # noqa: E731
            return _invert(is_null) if isinstance(op, ast.NotEq | ast.IsNot) else is_null
        if type(op) not in _COMPARE:
            raise self._refuse(right, "None after 'is'")
        return self._parse_literal_test(_COMPARE[type(op)], field_, right)

    def _parse_membership(self, left: ast.expr, right: ast.expr) -> Test:
        """Parse `lang in ["ko", "en"]`, or a part of a string: `"http" in url`."""
        if isinstance(right, ast.List | ast.Tuple):
            field_ = self._parse_field(left)
            if field_ is None:
                raise self._refuse(left, "the name of a field before 'in'")
            tests = [self._parse_literal_test(_COMPARE[ast.Eq], field_, item) for item in right.elts]
            return _join_tests(pc.or_kleene, tests)
        part, name = self._parse_literal(left), self._parse_name(right)
        if name is None or not isinstance(part, str):
            raise self._refuse(right, "a list after 'in', or a string before it and a field after it")
        return lambda columns: pc.match_substring(columns[name].strings(), part)

    def _parse_literal_test(self, op: Op, field_: tuple[str, bool], node: ast.expr) -> Test:
        literal, (name, measured) = self._parse_literal(node), field_
        if literal is None:
            raise self._refuse(node, "a value; test for None with 'is None'")
        if measured and isinstance(literal, str | bool):
            raise self._refuse(node, "a number to compare a length with")
        return lambda columns: _compare(op, columns[name], literal, measured=measured)

    def _parse_field(self, node: ast.expr) -> tuple[str, bool] | None:
        """Return the name of a field and whether its length is meant; None for another expression."""
        measured = isinstance(node, ast.Call) and getattr(node.func, "id", None) == "len"
        if isinstance(node, ast.Call) and measured:
            name = self._parse_name(node.args[0]) if len(node.args) == 1 and not node.keywords else None
            if name is None:
                raise self._refuse(node, "len of one field")
        else:
            name = self._parse_name(node)
        return None if name is None else (name, measured)

    def _parse_name(self, node: ast.expr) -> str | None:
        """Parse `lang`, `meta.lang` or `field("any name")`; return None for another expression."""
        match node:
            case ast.Call(func=ast.Name(id="field"), args=[ast.Constant(value=str() as name)], keywords=[]):
                try:
                    split_path(name)
                except ConfigError as error:
                    raise self._refuse(node, "a name in which no part between dots is empty") from error
            case ast.Call(func=ast.Name(id="field")):
                raise self._refuse(node, 'field("name")')
            case _:
                keys, inner = [], node
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
        match node:
            case ast.Name(id=name) if name in _WORDS:
                return _WORDS[name]
            case ast.Constant(value=None | str() | int() | float() as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                if not isinstance(value, bool):
                    return -value
        raise self._refuse(node, "a string, a number, True, False or None")


def _invert(test: Test) -> Test:
    return lambda columns: pc.invert(test(columns))


def _join_tests(join: Callable[[Any, Any], Any], tests: list[Test]) -> Test:
    if not tests:
        return lambda _columns: pa.scalar(False)  # noqa: FBT003
    return lambda columns: reduce(join, [test(columns) for test in tests])
