"""Evaluate predicates over columns other than the text, such as `lang == "ko" and score >= 0.5`.

The predicate is parsed as a Python expression. Everything outside the grammar of docs/sources.md is rejected,
so it cannot run code. A comparison applies to values of the literal's type. For any other value the result is
null, and the record is dropped unless another operand of an `or` is true. The result for a record does not
depend on the other records of its block.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tokenmill.errors import ConfigError
from tokenmill.sources.columnar import is_text
from tokenmill.sources.fields import split_path

Columns = Mapping[str, "Column"]
Op = Callable[[Any, Any], pa.Array]
Literal = str | int | float | bool | None

_COMPARE: dict[type[ast.cmpop], Op] = {
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
_FALSE, _TRUE, _NUMBER, _STRING = 1, 2, 3, 4  # the core's kinds of JSON values; 0 is null or missing
_NUMBER_PATTERN = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"
_INTEGER_PATTERN = r"^[+-]?\d{1,37}$"
_TEXT = pa.large_string()
# Holds every 64-bit integer and the longer ones of text formats, so that large numbers compare exactly.
_INTEGER = pa.decimal128(38, 0)
_MAX_INTEGER = 10**38 - 1
_MAX_FLOAT = int(np.finfo(np.float64).max)


class Column(NamedTuple):
    """A column as arrays of booleans, texts, integers and doubles, null where a value has another type.

    `measured` marks the lengths of its texts.
    """

    is_null: pa.BooleanArray
    arrays: tuple[pa.Array, ...]
    measured: bool = False

    def select(self, *kinds: pa.DataType) -> list[pa.Array]:
        """Return the arrays of these types."""
        return [array for array in self.arrays if array.type in kinds]

    def join(self, answers: list[pa.Array]) -> pa.Array:
        """Merge the results of the arrays into one; null where no array has a value."""
        return pc.coalesce(pa.nulls(len(self.is_null), pa.bool_()), *answers)

    def measure(self) -> Column:
        """Return the lengths of the texts in characters."""
        lengths = [pc.utf8_length(array).cast(_INTEGER) for array in self.select(_TEXT)]
        return Column(self.is_null, tuple(lengths), measured=True)


def make_text_column(kinds: NDArray[np.uint8], values: pa.LargeStringArray, *, typed: bool) -> Column:
    """Return a column of a text format from the kind of each value and the characters.

    CSV values are not `typed`: a string that parses as a number or boolean is also a value of that type.
    """
    strings = keep_where(kinds == _STRING, values)
    if typed:
        numbers = keep_where(kinds == _NUMBER, values)
        booleans = pa.array(kinds == _TRUE, mask=~np.isin(kinds, (_FALSE, _TRUE)))
    else:
        numbers = keep_where(pc.match_substring_regex(strings, _NUMBER_PATTERN), strings)
        lower = pc.utf8_lower(strings)
        booleans = keep_where(pc.is_in(lower, pa.array(["true", "false"], _TEXT)), pc.equal(lower, "true"))
    if numbers.null_count == len(numbers):  # parsing would take as long as the rest of the function
        return Column(pa.array(kinds == 0), (booleans, strings))
    whole = pc.match_substring_regex(numbers, _INTEGER_PATTERN)
    integers = keep_where(whole, numbers).cast(_INTEGER)
    floats = keep_where(pc.invert(whole), numbers).cast(pa.float64())
    return Column(pa.array(kinds == 0), (booleans, strings, integers, floats))


def make_text_labels(kinds: NDArray[np.uint8], values: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return strings and numbers of a text format as they are printed, for use as ids."""
    return keep_where((kinds == _NUMBER) | (kinds == _STRING), values)


def make_arrow_column(array: pa.Array) -> Column:
    """Return a column of an Arrow type."""
    kind = array.type
    if is_text(kind):
        array = array.cast(_TEXT)
    elif pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        array = array.cast(_INTEGER)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        array = array.cast(pa.float64())
    return Column(array.is_null(), (array,))


def make_arrow_labels(array: pa.Array) -> pa.LargeStringArray:
    """Return strings and numbers of an Arrow type as they are printed, for use as ids."""
    kind = array.type
    wanted = is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return array.cast(_TEXT) if wanted else pa.nulls(len(array), _TEXT)


def keep_where(mask: Any, values: pa.Array) -> pa.Array:
    """Return the values where `mask` is true, and null elsewhere."""
    known = pc.fill_null(pa.array(mask), fill_value=False)
    return pc.if_else(known, values, pa.scalar(None, values.type))


def _compare(op: Op, column: Column, literal: str | float) -> pa.Array:
    """Compare the values of the literal's type; null elsewhere."""
    if isinstance(literal, bool):
        return column.join([op(array, literal) for array in column.select(pa.bool_())])
    if isinstance(literal, str):
        return column.join([op(array, pa.scalar(literal, _TEXT)) for array in column.select(_TEXT)])
    numbers = column.select(_INTEGER, pa.float64())
    return column.join([_compare_numbers(op, array, literal) for array in numbers])


def _compare_numbers(op: Op, array: pa.Array, literal: float) -> pa.Array:
    """Compare exactly, as Python does: neither side is rounded."""
    low: float
    bound: Any
    if array.type == _INTEGER:
        low = math.floor(max(-_MAX_INTEGER, min(literal, _MAX_INTEGER)))
        bound = pa.scalar(Decimal(low), _INTEGER)
    else:
        near = literal if isinstance(literal, float) else float(max(-_MAX_FLOAT, min(literal, _MAX_FLOAT)))
        low = bound = near if near <= literal else math.nextafter(near, -math.inf)
    if low == literal:
        return op(array, bound)
    # The literal is above `low` and below the next value of the type.
    if op in {pc.equal, pc.not_equal}:
        return keep_where(array.is_valid(), pa.repeat(op is pc.not_equal, len(array)))
    return (pc.less_equal if op in {pc.less, pc.less_equal} else pc.greater)(array, bound)


class _Names(dict[str, Column]):
    """Records the names of the columns that are looked up, and returns empty ones."""

    def __missing__(self, name: str) -> Column:
        arrays = [pa.array([], kind) for kind in (pa.bool_(), _TEXT, _INTEGER, pa.float64())]
        self[name] = Column(arrays[0], tuple(arrays))
        return self[name]


class Predicate:
    """A parsed predicate: the columns that it needs, and a mask for a block of them."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        names = _Names()
        try:
            self._tree = ast.parse(self.text, mode="eval").body
            self._test(self._tree, names)  # rejects everything outside the grammar
        except ConfigError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConfigError(
                f"where: {self.text!r} is not an expression ({error}); write e.g. {_EXAMPLE}"
            ) from error
        self.columns = tuple(names)

    def __reduce__(self) -> tuple[type[Predicate], tuple[str]]:
        return Predicate, (self.text,)

    def mask(self, columns: Columns, length: int) -> NDArray[np.bool_]:
        """Return which of `length` documents to keep: `Predicate("n > 1").mask({"n": ...}, 3)`."""
        result = self._test(self._tree, columns)
        if isinstance(result, pa.Scalar):
            result = pa.repeat(result, length)
        mask: NDArray[np.bool_] = pc.fill_null(result, fill_value=False).to_numpy(zero_copy_only=False)
        return mask

    def _refuse(self, node: ast.expr, expected: str) -> ConfigError:
        found = ast.get_source_segment(self.text, node) or type(node).__name__
        line = self.text.splitlines()[node.lineno - 1].encode()
        place = len(line[: node.col_offset].decode("utf-8", "ignore")) + 1
        where = f"character {place}" + (f" of line {node.lineno}" if node.lineno > 1 else "")
        return ConfigError(
            f"where: {found!r} at {where} of {self.text!r} is not understood; expected {expected}, as in "
            f"{_EXAMPLE}"
        )

    def _test(self, node: ast.expr, columns: Columns) -> Any:
        match node:
            case ast.BoolOp(op=op, values=values):
                join = pc.and_kleene if isinstance(op, ast.And) else pc.or_kleene
                return reduce(join, [self._test(value, columns) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return pc.invert(self._test(operand, columns))
            case ast.Compare(left=left, ops=ops, comparators=others):
                # `0 < score <= 1` is two comparisons.
                sides = zip([left, *others], ops, others, strict=False)
                return reduce(pc.and_kleene, [self._test_sides(*each, columns) for each in sides])
        column = self._find_column(node, columns)
        if column is None or column.measured:
            raise self._refuse(node, "a comparison, and, or, not, or the name of a boolean field")
        return column.join(column.select(pa.bool_()))

    def _test_sides(self, left: ast.expr, op: ast.cmpop, right: ast.expr, columns: Columns) -> Any:
        if isinstance(op, ast.In | ast.NotIn):
            answer = self._test_membership(left, right, columns)
            return pc.invert(answer) if isinstance(op, ast.NotIn) else answer
        column = self._find_column(left, columns)
        if column is None:
            self._parse_literal(left)
            column, left, right = self._find_column(right, columns), right, left
            op = _MIRRORED.get(type(op), type(op))()
        if column is None:
            raise self._refuse(left, "the name of a field on one side")
        if self._parse_literal(right) is None and isinstance(op, ast.Eq | ast.Is | ast.NotEq | ast.IsNot):
            if column.measured:
                raise self._refuse(left, "the name of a field before a test for None")
            return pc.invert(column.is_null) if isinstance(op, ast.NotEq | ast.IsNot) else column.is_null
        if type(op) not in _COMPARE:
            raise self._refuse(right, "None after 'is'")
        return self._test_literal(_COMPARE[type(op)], column, right)

    def _test_membership(self, left: ast.expr, right: ast.expr, columns: Columns) -> Any:
        """Test `lang in ["ko", "en"]`, or a part of a string: `"http" in url`."""
        if isinstance(right, ast.List | ast.Tuple):
            column = self._find_column(left, columns)
            if column is None:
                raise self._refuse(left, "the name of a field before 'in'")
            answers = [self._test_literal(pc.equal, column, item) for item in right.elts]
            return reduce(pc.or_kleene, answers, pa.scalar(False))  # noqa: FBT003
        part, column = self._parse_literal(left), self._find_column(right, columns)
        if column is None or column.measured or not isinstance(part, str):
            raise self._refuse(right, "a list after 'in', or a string before it and a field after it")
        return column.join([pc.match_substring(array, part) for array in column.select(_TEXT)])

    def _test_literal(self, op: Op, column: Column, node: ast.expr) -> pa.Array:
        literal = self._parse_literal(node)
        if literal is None:
            raise self._refuse(node, "a value; test for None with 'is None'")
        if column.measured and isinstance(literal, str | bool):
            raise self._refuse(node, "a number to compare a length with")
        return _compare(op, column, literal)

    def _find_column(self, node: ast.expr, columns: Columns) -> Column | None:
        """Return the column of `lang`, `meta.lang`, `field("any name")` or `len(lang)`, or None."""
        match node:
            case ast.Call(func=ast.Name(id="len"), args=args, keywords=keywords):
                column = self._find_column(args[0], columns) if len(args) == 1 and not keywords else None
                if column is None or column.measured:
                    raise self._refuse(node, "len of one field")
                return column.measure()
            case ast.Call(func=ast.Name(id="field"), args=[ast.Constant(value=str() as name)], keywords=[]):
                try:
                    split_path(name)
                except ConfigError as error:
                    raise self._refuse(node, "a name in which no part between dots is empty") from error
                return columns[name]
            case ast.Call(func=ast.Name(id="field")):
                raise self._refuse(node, 'field("name")')
        keys, inner = [], node
        while isinstance(inner, ast.Attribute):
            keys.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name) or inner.id in _WORDS:
            return None
        return columns[".".join([inner.id, *reversed(keys)])]

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
