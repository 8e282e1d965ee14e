"""The sandbox in which templates run: that of transformers, with limits, and aware of symbols.

Every loop, call, filter, test and `in` of a template goes through here, so that it ends, and so that the
characters of a symbol are never read unnoticed.
"""

from __future__ import annotations

import json
from functools import wraps
from typing import TYPE_CHECKING, Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.runtime import Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from tokenmill.chat.limits import Budget
from tokenmill.chat.symbols import BEGIN, END, MARK, Symbol, UntraceableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import date

    from tokenmill.chat.symbols import Tracer

# What filters may do with lists of symbols without looking into one.
_CARRIES = frozenset(
    {
        *("length", "count", "list", "first", "last", "reverse", "select", "reject", "selectattr", "map"),
        *("rejectattr", "items", "dictsort", "default", "d", "attr", "batch", "slice"),
    }
)
_PURE = frozenset(["lower", "upper", "capitalize", "title", "indent", "replace"])
_IS = frozenset(["string", "iterable", "sequence", "defined"])
_IS_NOT = frozenset(
    {
        *("mapping", "number", "integer", "float", "boolean", "true", "false", "none", "undefined"),
        *("callable", "escaped"),
    }
)
_COMPARES = frozenset(["eq", "equalto", "==", "ne", "!="])


class Generation(Extension):
    """`{% generation %} … {% endgeneration %}`, as in transformers: what the model is to write."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own

    def parse(self, parser: Any) -> nodes.Node:
        """A block that calls `_mark` with its body."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller: Callable[[], str]) -> str:
        environment: Any = self.environment
        found: str = environment.concat([BEGIN, caller(), END])
        return found


class _Watch(NodeTransformer):
    """Loops count their turns, `in` and `~` become filters that know symbols."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - named by Jinja
        self.generic_visit(node)
        node.iter = _make_filter(node.iter, "_count_turns")
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        names = [operand.op for operand in node.ops]
        if len(names) == 1 and names[0] in {"in", "notin"}:
            found: nodes.Expr = _make_filter(node.expr, "_is_in", node.ops[0].expr)
            return nodes.Not(found, lineno=node.lineno) if names[0] == "notin" else found
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _make_filter(nodes.List(node.nodes, lineno=node.lineno), "_concat")


def _make_filter(node: Any, name: str, *arguments: Any) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)


class _Dict:
    """`dict` for templates, without the attributes of a class."""

    def __call__(self, *arguments: Any, **items: Any) -> dict[Any, Any]:
        return dict(*arguments, **items)

    def fromkeys(self, *arguments: Any) -> dict[Any, Any]:
        """`dict.fromkeys`."""
        return dict.fromkeys(*arguments)


class _Namespace(Namespace):
    """`namespace` that refuses names of Python's own."""

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"a name in a namespace must not begin with an underscore, found {name!r}")
        super().__setitem__(name, value)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """One environment for one template; `tracer` is set while a template runs on symbols."""

    intercepted_binops = frozenset({"+", "*", "%", "**"})

    def __init__(self, today: date) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols], cache_size=0
        )
        self.tracer: Tracer | None = None
        self.budget = Budget()
        # Data must be reproducible, so nothing random is allowed.
        self.globals.pop("lipsum", None)
        self.filters.pop("random", None)
        self.filters["tojson"] = _to_json
        self.filters = {name: self._watch_filter(name, each) for name, each in self.filters.items()}
        self.tests = {name: self._watch_test(name, each) for name, each in self.tests.items()}
        self.filters |= {"_count_turns": self._count_turns, "_is_in": self._is_in, "_concat": self.concat}
        self.globals |= {
            "raise_exception": self._raise,
            "strftime_now": today.strftime,
            "dict": _Dict(),
            "namespace": _Namespace,
        }

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        parsed = super()._parse(source, name, filename)
        watched: nodes.Template = _Watch().visit(parsed)
        return watched

    def concat(self, parts: Iterable[Any]) -> str:
        """What blocks, macros and `~` are joined by."""
        held = [part if isinstance(part, str) else str(part) for part in parts]
        text = "".join(held)
        self.budget.check_text(text)
        return self.tracer.wrap(text) if self.tracer is not None else text

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Operators that can make a large string, or look into one."""
        self.budget.step()
        if operator in {"*", "**"}:
            self.budget.check_numbers(left, right)
        if operator in {"*", "%"} and self.tracer is not None and isinstance(left, str):
            self._refuse_symbols("%", (left, right))
        return self.budget.check_text(super().call_binop(context, operator, left, right))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805, PYI063 - Jinja's own
        """Everything that a template calls."""
        __self.budget.step()
        __self.budget.check_numbers(*args)
        owner = getattr(__obj, "__self__", None)
        if __self.tracer is not None and type(owner) in {str, bytes, int, float}:
            if type(owner) is str and getattr(__obj, "__name__", "") == "join" and args:
                return __self.tracer.join(_interleave(owner, args[0]))
            # Jinja hands the variables of a loop along under names of its own.
            named = [value for name, value in kwargs.items() if not name.startswith("_")]
            __self._refuse_symbols(f"a method of {type(owner).__name__}", (args, named))
        return __self.budget.check_text(super().call(__context, __obj, *args, **kwargs))

    def _raise(self, message: Any) -> None:
        shown = str(message)
        if self.tracer is not None and MARK in shown:
            shown = "".join(
                part if isinstance(part, str) else self.tracer.values[part.number].text[:80]
                for part in self.tracer.split_parts(shown)
            )
        raise TemplateError(shown)

    def _count_turns(self, items: Any) -> Iterator[Any] | Any:
        if isinstance(items, Undefined):
            return items
        if isinstance(items, list | tuple | dict | range):
            self.budget.steps -= len(items)
            self.budget.step()
            return items
        return self._count_each(items)

    def _count_each(self, items: Any) -> Iterator[Any]:
        for item in items:
            self.budget.step()
            yield item

    def _is_in(self, item: Any, holder: Any) -> bool:
        if isinstance(item, Symbol) and isinstance(holder, str) and not isinstance(holder, Symbol):
            raise UntraceableError("a symbol looked for in a string")
        return item in holder

    def _refuse_symbols(self, what: str, values: Any) -> None:
        if self.tracer is not None and _has_symbol(values):
            raise UntraceableError(what)

    def _watch_filter(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self.budget.step()
            self.budget.check_numbers(*args, *kwargs.values())
            if self.tracer is None or not _has_symbol((args, kwargs)):
                return self.budget.check_text(function(*args, **kwargs))
            return self._filter_symbols(name, function, args, kwargs)

        return run

    def _filter_symbols(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        assert self.tracer is not None, "symbols are there only while tracing"
        if name == "tojson":
            return self.tracer.wrap(_to_json(_escape(args[0], self.tracer), *args[1:], **kwargs))
        if name == "join" and not kwargs:
            *_, items, glue = args if isinstance(args[-1], str) else (*args, "")
            return self.tracer.join(_interleave(glue, items))
        place = next((at for at, each in enumerate(args) if isinstance(each, Symbol)), None)
        if name in {"default", "d"} or (place is None and name in _CARRIES):
            return function(*args, **kwargs)
        if place is None:
            raise UntraceableError(f"the filter {name}")
        return self._filter_symbol(name, function, args, place, kwargs)

    def _filter_symbol(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        place: int,
        kwargs: dict[str, Any],
    ) -> Any:
        assert self.tracer is not None, "symbols are there only while tracing"
        symbol, rest = args[place], args[place + 1 :]
        if name == "trim":
            return symbol.strip(*rest, *kwargs.values())
        if name == "string":
            return symbol
        if name in {"length", "count"}:
            return len(symbol)
        if name in _PURE and not kwargs:
            # What stands before the symbol is the environment, which none of these asks for anything.
            return self.tracer.derive(_Pure(name, function, args[:place]), symbol, *rest)
        raise UntraceableError(f"the filter {name}")

    def _watch_test(self, name: str, function: Any) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self.budget.step()
            if self.tracer is None or not _has_symbol(args):
                return function(*args, **kwargs)
            return self._test_symbols(name, function, args)

        return run

    def _test_symbols(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        value = args[0]
        if name in _IS | _IS_NOT:
            return name in _IS if isinstance(value, Symbol) else function(*args)
        if name in _COMPARES:
            return (value == args[1]) == (name not in {"ne", "!="})
        if name == "in":
            return self._is_in(value, args[1])
        raise UntraceableError(f"the test {name}")


class _Pure:
    """A filter of Jinja as a note: equal to another of the same name, so that a trace finds it again."""

    def __init__(self, name: str, function: Callable[..., Any], before: tuple[Any, ...]) -> None:
        self.name = name
        self._function = function
        self._before = before

    def __call__(self, *arguments: Any) -> str:
        return str(self._function(*self._before, *arguments))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pure) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _interleave(glue: str, items: Any) -> list[Any]:
    found: list[Any] = []
    for item in items:
        found += [glue, item] if found else [item]
    return found


def _has_symbol(value: Any, depth: int = 6) -> bool:
    """Whether a value contains a symbol, or is nested so deeply that it may."""
    if isinstance(value, str):
        return isinstance(value, Symbol)
    if isinstance(value, dict):
        return depth == 0 or any(_has_symbol(item, depth - 1) for item in value.values())
    if isinstance(value, list | tuple):
        return depth == 0 or any(_has_symbol(item, depth - 1) for item in value)
    return False


def escape_json(text: str) -> str:
    """The characters of a string between the quotes of JSON, as a note."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _escape(value: Any, tracer: Tracer) -> Any:
    if isinstance(value, Symbol):
        return tracer.derive(escape_json, value)
    if isinstance(value, dict):
        return {key: _escape(item, tracer) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escape(item, tracer) for item in value]
    return value


def _to_json(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - as templates call it
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
