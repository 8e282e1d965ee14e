"""Sandbox for chat templates: the one of transformers, with resource limits and string tracing.

Every loop, call, filter and operator of a template is intercepted. Each is counted, and in a traced render
the strings of a record keep their origin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import date
from functools import wraps
from time import monotonic
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import make_attrgetter
from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

from tokenmill.chat.tracing import BLOCK_END, BLOCK_START, Traced, blend, interleave, join

# Limits of one render. Steps are the same on every machine; the time limit is far above their duration.
MOST_STEPS = 2_000_000
STEPS_PER_MESSAGE = 2_000
MOST_SECONDS = 60.0
MOST_CHARACTERS = 1 << 28
MOST_ITEMS = 1 << 22
_LARGEST_NUMBER = 1 << 20
_WIDTH = re.compile(r"\d{7,}|%[^a-z]*\*|:[^{}]*\{")

# Filters that return the objects they are given, or that keep track of origins themselves.
_CARRIES = {
    *("length", "count", "list", "first", "last", "reverse", "select", "reject", "selectattr", "rejectattr"),
    *("map", "items", "dictsort", "sort", "unique", "groupby", "default", "d", "attr", "batch", "slice"),
    *("join", "min", "max"),
}
_CARRIES_STRINGS = frozenset(["trim", "string"])
_STRINGS = (str, Traced)
# Methods and filters whose result can be longer than all of their arguments.
_GROWS = frozenset(["expandtabs", "indent", "wordwrap", "format", "format_map", "%", "replace", "*"])


class TemplateLimitError(Exception):
    """A template runs for too long, or writes too much."""


class Budget:
    """The steps, characters and time left to one rendering."""

    def __init__(self, messages: int = 0, characters: int = 0) -> None:
        self._most = MOST_STEPS + STEPS_PER_MESSAGE * messages
        self._steps = self._most
        self._characters = MOST_CHARACTERS + 64 * characters
        self._until = monotonic() + MOST_SECONDS

    def step(self, count: int = 1) -> None:
        """Count loop iterations and calls; raise if there are too many."""
        self._steps -= count
        if self._steps < 0:
            raise TemplateLimitError(f"it takes more than {self._most:,} steps for one conversation")
        if self._steps & 63 == 0 and monotonic() > self._until:
            raise TemplateLimitError(f"it takes more than {MOST_SECONDS:.0f} seconds for one conversation")

    def check_size(self, size: int) -> None:
        """Raise if a result of `size` characters would be too long."""
        if size > self._characters:
            raise TemplateLimitError(f"it makes a text of more than {MOST_CHARACTERS:,} characters")

    def check_call(self, name: str, text: Any, arguments: Iterable[Any]) -> None:
        """Raise if a function could return a text that is too long; `text` is its first operand."""
        formats, sizes = name in {"%", "format", "format_map"}, [1]
        for each in arguments:
            if isinstance(each, str):
                sizes.append(len(each))
            elif isinstance(each, dict) and formats:
                sizes += [len(item) for item in each.values() if isinstance(item, str)]
            elif isinstance(each, int) and not formats:
                if abs(each) > _LARGEST_NUMBER:
                    raise TemplateLimitError(
                        f"it calls a function with the number {each}, which is too large"
                    )
                sizes.append(each)
        if name in _GROWS and isinstance(text, (str, list, tuple)):
            if formats and _WIDTH.search(str(text)):
                raise TemplateLimitError("it writes with a width that is too large or computed")
            self.check_size(len(text) * max(sizes) * (1 if isinstance(text, str) else 64))

    def spend(self, result: Any) -> Any:
        """Count the characters of a result; raise if there are too many."""
        if isinstance(result, str):
            self._characters -= len(result)
            if self._characters < 0:
                self.check_size(0)
        elif isinstance(result, (list, tuple)) and len(result) > MOST_ITEMS:
            raise TemplateLimitError(f"it makes a list of more than {MOST_ITEMS:,} items")
        return result


class Generation(Extension):
    """`{% generation %} … {% endgeneration %}`, as in transformers: text that the model generates."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own

    def parse(self, parser: Any) -> nodes.Node:
        """Return a block that calls `_mark` with its body."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller: Callable[[], str]) -> str:
        if not isinstance(self.environment, ChatEnvironment):
            return caller()
        return join([Traced("", ((0, BLOCK_START),)), caller(), Traced("", ((0, BLOCK_END),))])


class _Instrument(NodeTransformer):
    """Instrument loops to count iterations and report their item, and replace `~` by a tracing filter."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_macro = False

    def visit_For(self, node: nodes.For) -> Any:  # noqa: N802 - named by Jinja
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        node.iter = _make_filter(node.iter, "_count_turns")
        if self._in_macro or not isinstance(node.target, nodes.Name):
            return node
        depth = nodes.Const(self._depth)
        item = nodes.Name(node.target.name, "load", lineno=node.lineno)
        node.body.insert(0, nodes.ExprStmt(_make_filter(item, "_enter", depth), lineno=node.lineno))
        none = nodes.Const(None, lineno=node.lineno)
        return [node, nodes.ExprStmt(_make_filter(none, "_enter", depth), lineno=node.lineno)]

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


class PlainEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox of transformers with its helpers, without random functions: data must be reproducible."""

    def __init__(self, today: date, finalize: Callable[..., Any] | None = None) -> None:
        # No constant folding, because the limits do not apply while a template is compiled.
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[Generation, loopcontrols],
            cache_size=0,
            optimized=False,
            finalize=finalize or _keep,
        )
        self.globals.pop("lipsum", None)
        self.filters.pop("random", None)
        self.filters["tojson"] = _to_json
        self.globals |= {"raise_exception": _raise, "strftime_now": today.strftime}


class ChatEnvironment(PlainEnvironment):
    """The environment of one template with limits and tracing. It renders one conversation at a time."""

    intercepted_binops = frozenset({"+", "*", "%", "**"})

    def __init__(self, today: date) -> None:
        self.budget = Budget()
        super().__init__(today, self._to_text)
        # The numbers of the messages by the identity of their dictionaries, and the loops that are running.
        self._numbers: dict[int, int] = {}
        self._loops: list[int | None] = []
        self._message: int | None = None
        self.filters["join"] = self._join_filter
        self.filters = {name: self._watch(name, each) for name, each in self.filters.items()}
        self.filters |= {"_count_turns": self._count_turns, "_concat": self.concat, "_enter": self._enter}

    def run(self, template: Any, variables: dict[str, Any], budget: Budget) -> list[tuple[str, int | None]]:
        """Return the output of a template in parts, each with the index of the message its loop is at."""
        self.budget = budget
        self._numbers = {id(message): number for number, message in enumerate(variables["messages"])}
        self._loops, self._message = [], None
        parts = template.root_render_func(template.new_context(variables))
        return [(budget.spend(part), self._message) for part in parts]

    @pass_context  # so that Jinja does not evaluate it while it compiles
    def _enter(self, _context: Any, item: Any, depth: int) -> None:
        self._loops[depth:] = [self._numbers.get(id(item))]
        self._message = next((number for number in self._loops if number is not None), None)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return False for the attributes that only traced strings have."""
        return attr not in {"pieces", "cut"} and super().is_safe_attribute(obj, attr, value)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        parsed = super()._parse(source, name, filename)
        instrumented: nodes.Template = _Instrument().visit(parsed)
        return instrumented

    def concat(self, parts: Iterable[Any]) -> str:
        """Join the parts of a block, a macro or `~`."""
        held = [self._to_text(part) for part in parts]
        self.budget.check_size(sum(map(len, held)))
        return str(self.budget.spend(join(held)))

    def _to_text(self, value: Any) -> str:
        text: str = value if isinstance(value, str) else blend(str(value), value)
        return text

    def _join_filter(self, value: Any, d: Any = "", attribute: Any = None) -> str:
        items = value if attribute is None else map(make_attrgetter(self, attribute), value)
        return self.concat(interleave(d, items))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator that can make a large value."""
        self.budget.step()
        if operator == "+" and type(left) in _STRINGS and type(right) in _STRINGS:
            return self.budget.spend(join((left, right)))
        if operator == "%":
            self.budget.check_call(operator, left, right if isinstance(right, tuple) else (right,))
        elif operator != "+":
            self.budget.check_call(operator, left, (left, right))
            self.budget.check_call(operator, right, (left, right))
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, str) and type(result) is not Traced:
            result = blend(result, left, right)
        return self.budget.spend(result)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805, PYI063 - Jinja's own
        """Call a function, method or macro of a template within the budget."""
        __self.budget.step()
        method = getattr(__obj, "__wrapped__", __obj)  # Jinja wraps `format`
        owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
        if not isinstance(__obj, Macro):
            __self.budget.check_call(name, owner, (*args, *kwargs.values()))
        if name == "join" and isinstance(owner, str) and len(args) == 1:
            args = (list(args[0]),)
            if all(isinstance(item, str) for item in args[0]):
                return __self.concat(interleave(owner, args[0]))
        result = super().call(__context, __obj, *args, **kwargs)
        follows = isinstance(owner, (Traced, dict, list, tuple)) or isinstance(__obj, (Macro, LoopContext))
        if not follows and (isinstance(result, str) or isinstance(owner, str)):
            # Jinja passes the variables of a loop under special names.
            result = blend(result, owner, args, [kwargs[key] for key in kwargs if not key.startswith("_")])
        return __self.budget.spend(result)

    def _count_turns(self, items: Any) -> Any:
        if isinstance(items, (list, tuple, dict, range, Undefined)):
            self.budget.step(len(items))
            return items
        return map(self._count, items)

    def _count(self, item: Any) -> Any:
        self.budget.step()
        return item

    def _watch(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self.budget.step()
            place = next((at for at, each in enumerate(args) if isinstance(each, str)), 0)
            self.budget.check_call(name, args[place], (*args[place + 1 :], *kwargs.values()))
            result = function(*args, **kwargs)
            follows = name in _CARRIES or (name in _CARRIES_STRINGS and isinstance(args[0], str))
            return self.budget.spend(result if follows else blend(result, args, kwargs))

        return run


@pass_context
def _keep(_context: Any, value: Any) -> Any:
    return value


def _raise(message: Any) -> None:
    raise TemplateError(str(message))


def _to_json(value: Any, *given: Any, **options: Any) -> str:
    names = ("ensure_ascii", "indent", "separators", "sort_keys")
    return json.dumps(value, **{"ensure_ascii": False, **dict(zip(names, given, strict=False)), **options})
