"""Environments for chat templates: the sandbox of transformers, and one that traces strings.

The tracing environment intercepts every call, filter and operator of a template, so that the strings of a
record keep their origin.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import date
from functools import wraps
from types import MethodType
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import make_attrgetter
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from tokenmill.chat.tracing import BLOCK_END, BLOCK_START, Traced, blend, join

# The variable of a traced template that holds the position of its loops.
POSITION = "_tokenmill_position"
# Filters that return the objects they are given, or that keep track of origins themselves.
_CARRIES = {
    *("length", "count", "list", "first", "last", "reverse", "select", "reject", "selectattr", "rejectattr"),
    *("map", "items", "dictsort", "sort", "unique", "groupby", "default", "d", "attr", "batch", "slice"),
    *("join", "min", "max"),
}
_CARRIES_STRINGS = frozenset(["trim", "string"])


class Generation(Extension):
    """`{% generation %} … {% endgeneration %}`, as in transformers: text that the model generates."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own

    def parse(self, parser: Any) -> nodes.Node:
        """Return a block that calls `_mark` with its body."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller: Callable[[], str]) -> str:
        if not isinstance(self.environment, TracingEnvironment):
            return caller()
        return join([Traced("", ((0, BLOCK_START),)), caller(), Traced("", ((0, BLOCK_END),))])


class _Instrument(NodeTransformer):
    """Make loops report their item, and replace `~` by a tracing filter."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_macro = False

    def visit_For(self, node: nodes.For) -> Any:  # noqa: N802 - named by Jinja
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        if self._in_macro or not isinstance(node.target, nodes.Name):
            return node
        node.body.insert(0, self._make_enter(nodes.Name(node.target.name, "load", lineno=node.lineno)))
        return [node, self._make_enter(nodes.Const(None, lineno=node.lineno))]

    def _make_enter(self, item: Any) -> nodes.Node:
        position = nodes.Name(POSITION, "load", lineno=item.lineno)
        return nodes.ExprStmt(
            _make_filter(position, "_enter", item, nodes.Const(self._depth)), lineno=item.lineno
        )

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        before, self._in_macro = self._in_macro, True
        self.generic_visit(node)
        self._in_macro = before
        return node

    visit_CallBlock = visit_AssignBlock = visit_FilterBlock = visit_Macro  # noqa: N815

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _make_filter(nodes.List(node.nodes, lineno=node.lineno), "_concat")

    def visit_ScopedEvalContextModifier(self, node: nodes.Node) -> nodes.Node:  # noqa: N802
        raise TemplateSyntaxError("a chat template cannot set autoescape", node.lineno)


def _make_filter(node: Any, name: str, *arguments: Any) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)


class _Position:
    """The message that the loops of a template are at."""

    def __init__(self, messages: Iterable[Any]) -> None:
        self._numbers = {id(message): number for number, message in enumerate(messages)}
        self._loops: list[int | None] = []
        self.message: int | None = None

    def enter(self, item: Any, depth: int) -> None:
        """Record that the loop at `depth` is at an item, or has ended if the item is None."""
        self._loops[depth:] = [self._numbers.get(id(item))]
        self.message = next((number for number in self._loops if number is not None), None)


class PlainEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox of transformers with its helpers, without random functions: data must be reproducible."""

    def __init__(self, today: date, finalize: Callable[..., Any] | None = None) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols], finalize=finalize
        )
        self.globals.pop("lipsum", None)
        self.filters.pop("random", None)
        self.filters["tojson"] = _to_json
        self.globals |= {"raise_exception": _raise, "strftime_now": today.strftime}


class TracingEnvironment(PlainEnvironment):
    """The same sandbox for templates that are given `Traced` strings."""

    intercepted_binops = frozenset({"+", "%", "*"})

    def __init__(self, today: date) -> None:
        super().__init__(today, _to_text)
        self.filters["join"] = self._join_filter
        self.filters = {name: _trace_filter(name, each) for name, each in self.filters.items()}
        self.filters |= {"_concat": self.concat, "_enter": _Position.enter}

    def concat(self, parts: Iterable[Any]) -> str:
        """Join the parts of a block, a macro or `~`."""
        return join(map(_to_text, parts))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        parsed = super()._parse(source, name, filename)
        instrumented: nodes.Template = _Instrument().visit(parsed)
        return instrumented

    def _join_filter(self, value: Any, d: Any = "", attribute: Any = None) -> str:
        items = value if attribute is None else map(make_attrgetter(self, attribute), value)
        return join(map(_to_text, items), _to_text(d))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator whose operands can be strings of other types than `Traced`."""
        result = super().call_binop(context, operator, left, right)
        is_plain = isinstance(result, str) and type(result) is not Traced
        return blend(result, left, right) if is_plain else result

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805, PYI063 - Jinja's own
        """Call a function, method or macro of a template."""
        method = getattr(__obj, "__wrapped__", __obj)  # Jinja wraps `format`
        owner = getattr(method, "__self__", None)
        if isinstance(owner, str) and method.__name__ == "join":
            (items,) = args
            return join(items, owner)
        result = super().call(__context, __obj, *args, **kwargs)
        follows = isinstance(owner, (dict, list, tuple)) or isinstance(__obj, (Macro, LoopContext))
        if isinstance(owner, Traced):
            follows = isinstance(method, MethodType)  # a method of `Traced` itself, not of `str`
        if follows or not (isinstance(result, str) or isinstance(owner, str)):
            return result
        # Jinja passes the variables of a loop under special names.
        return blend(result, owner, args, [kwargs[key] for key in kwargs if not key.startswith("_")])


def run_traced(template: Any, variables: dict[str, Any]) -> list[tuple[str, int | None]]:
    """Return the output of a template in parts, each with the index of the message its loops are at."""
    position = _Position(variables["messages"])
    parts = template.root_render_func(template.new_context({**variables, POSITION: position}))
    return [(part, position.message) for part in parts]


def _to_text(value: Any) -> str:
    text: str = value if isinstance(value, str) else blend(str(value), value)
    return text


def _trace_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        follows = name in _CARRIES or (name in _CARRIES_STRINGS and isinstance(args[0], str))
        return result if follows else blend(result, args, kwargs)

    return run


def _raise(message: Any) -> None:
    raise TemplateError(str(message))


def _to_json(value: Any, *given: Any, **options: Any) -> str:
    names = ("ensure_ascii", "indent", "separators", "sort_keys")
    return json.dumps(value, **{"ensure_ascii": False, **dict(zip(names, given, strict=False)), **options})
