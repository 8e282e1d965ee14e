"""Evaluate predicates over columns other than the text, such as `lang == "ko" and score >= 0.5`.

The predicate is parsed as a Python expression. Everything outside the grammar of docs/sources.md is rejected,
so it cannot run code. A comparison applies to values of the literal's type. For any other value the result is
null, and the record is dropped unless another operand of an `or` is true.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import reduce
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tokenmill.errors import ConfigError
from tokenmill.sources.columnar import is_text
from tokenmill.sources.fields import split_path

Columns = Mapping[str, "Column"]
Op = Callable[[Any, Any], pa.Array]

_COMPARE: dict[type[ast.cmpop], Op] = {
    ast.Eq: pc.equal,
    ast.NotEq: pc.not_equal,
    ast.Lt: pc.less,
    ast.LtE: pc.less_equal,
    ast.Gt: pc.greater,
    ast.GtE: pc.greater_equal,
}
_MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_EXAMPLE = 'lang == "ko" and score >= 0.5'
_FALSE, _TRUE, _NUMBER, _STRING = 1, 2, 3, 4  # the core's kinds of JSON values; 0 is null or missing
_NUMBER_PATTERN = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"
_INTEGER_PATTERN = r"^[+-]?\d{1,37}$"
_TEXT = pa.large_string()
# Holds every 64-bit integer and the longer ones of text formats, so that large numbers compare exactly.
_INTEGER = pa.decimal128(38, 0)
_LIMIT = 10**38


class Column(NamedTuple):
    """A column as arrays of booleans, texts, integers and doubles, null where a value has another type."""

    is_null: pa.BooleanArray
    arrays: tuple[pa.Array, ...]

    def test(self, op: Op, literal: str | float) -> pa.Array:
        """Compare the values of the literal's type; null elsewhere."""
        kinds = {pa.bool_()} if isinstance(literal, bool) else {_INTEGER, pa.float64()}
        kinds = {_TEXT} if isinstance(literal, str) else kinds
        answers = [op(*_align(array, literal)) for array in self.arrays if array.type in kinds]
        return pc.coalesce(pa.nulls(len(self.is_null), pa.bool_()), *answers)

    def measure(self) -> Column:
        """Return the lengths of the texts in characters."""
        texts = [array for array in self.arrays if array.type == _TEXT]
        return Column(self.is_null, tuple(pc.utf8_length(array).cast(_INTEGER) for array in texts))


def _align(array: pa.Array, literal: str | float) -> tuple[pa.Array, Any]:
    """Return numbers and their literal as decimals if both are whole, else as doubles."""
    if isinstance(literal, str | bool):
        return array, literal
    if array.type == _INTEGER and abs(literal) < _LIMIT and literal == int(literal):
        return array, pa.scalar(Decimal(int(literal)), _INTEGER)
    return array.cast(pa.float64()), float(literal)


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


class _Names(dict[str, Column]):
    """Records the names of the columns that are looked up, and returns empty ones."""

    def __missing__(self, name: str) -> Column:
        self[name] = Column(pa.array([], pa.bool_()), ())
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

    def mask(self, columns: Columns, length: int) -> NDArray[np.bool_]:
        """Return which of `length` documents to keep: `Predicate("n > 1").mask({"n": ...}, 3)`."""
        result = self._test(self._tree, columns)
        if isinstance(result, pa.Scalar):
            result = pa.repeat(result, length)
        mask: NDArray[np.bool_] = pc.fill_null(result, fill_value=False).to_numpy(zero_copy_only=False)
        return mask

    def _refuse(self, node: ast.expr, expected: str) -> ConfigError:
        found = ast.get_source_segment(self.text, node)
        return ConfigError(
            f"where: {found!r} in {self.text!r} is not understood; expected {expected}, as in {_EXAMPLE}"
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
        return self._find_column(node, columns).test(pc.equal, literal=True)

    def _test_sides(self, left: ast.expr, op: ast.cmpop, right: ast.expr, columns: Columns) -> Any:
        match op:
            case ast.NotIn():
                return pc.invert(self._test_sides(left, ast.In(), right, columns))
            case ast.In() if isinstance(right, ast.List | ast.Tuple):
                column = self._find_column(left, columns)
                answers = [column.test(pc.equal, self._parse_literal(item)) for item in right.elts]
                return reduce(pc.or_kleene, answers, pa.scalar(False))  # noqa: FBT003
            case ast.In():
                part = self._parse_literal(left)
                if not isinstance(part, str):
                    raise self._refuse(left, "a string before 'in', or a list after it")
                return self._find_column(right, columns).test(pc.match_substring, part)
            case ast.Is() | ast.IsNot():
                if not isinstance(right, ast.Constant) or right.value is not None:
                    raise self._refuse(right, "None after 'is'")
                is_null = self._find_column(left, columns).is_null
                return is_null if isinstance(op, ast.Is) else pc.invert(is_null)
        kind = type(op)
        if isinstance(left, ast.Constant | ast.UnaryOp):
            left, right, kind = right, left, _MIRRORED.get(kind, kind)
        return self._find_column(left, columns).test(_COMPARE[kind], self._parse_literal(right))

    def _find_column(self, node: ast.expr, columns: Columns) -> Column:
        """Return the column of `lang`, `meta.lang`, `field("any name")` or `len(lang)`."""
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[inner], keywords=[]):
                return self._find_column(inner, columns).measure()
            case ast.Call(func=ast.Name(id="field"), args=[ast.Constant(value=str() as name)], keywords=[]):
                split_path(name)
                return columns[name]
        keys, inner = [], node
        while isinstance(inner, ast.Attribute):
            keys.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            raise self._refuse(node, 'a field (lang, meta.lang or field("any name")) or the len of one')
        return columns[".".join([inner.id, *reversed(keys)])]

    def _parse_literal(self, node: ast.expr) -> str | float:
        match node:
            case ast.Constant(value=str() | float() as value):
                return value
            case ast.Constant(value=int() as value) if value < _LIMIT:
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float()) as inner):
                return -cast("float", self._parse_literal(inner))
        raise self._refuse(node, "a string, a number, True or False; test for None with 'is None'")
