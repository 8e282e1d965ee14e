"""The skeleton of a self-contained page: styles inlined, no script, no request."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")


def page(title: str, parts: Iterable[str]) -> str:
    """A whole HTML document."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
        + "\n".join(parts)
        + "</main></body></html>\n"
    )


def section(title: str, *parts: str) -> str:
    """A titled part of the page."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def cards(values: dict[str, str]) -> str:
    """The large figures at the top."""
    return (
        '<dl class="cards">'
        + "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in values.items())
        + "</dl>"
    )


def table(header: Sequence[str], rows: Iterable[Sequence[object]], *, folded: bool = True) -> str:
    """The table behind a plot; folded away under one line unless asked otherwise."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    label = escape(header[0], quote=True)
    inner = f'<div class="wide" tabindex="0" role="region" aria-label="{label}, as a table">'
    inner += f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    return f"<details><summary>As a table</summary>{inner}</details>" if folded else inner


def paragraph(text: str, *, soft: bool = False) -> str:
    """A sentence."""
    return f"<p{' class=soft' if soft else ''}>{escape(text)}</p>"


def bars_section(title: str, header: tuple[str, str], values: dict[str, float]) -> str:
    """Return a section with one bar per value, and their table."""
    chart = draw_bars(list(values), list(values.values()), header[1])
    return section(title, chart, table(header, values.items()))


def code(text: str) -> str:
    """A command or a file, as it is."""
    return f"<pre>{escape(text)}</pre>"


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape(str(value))}</td>"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
    return f'<td class="n">{shown}</td>'


WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 40


@dataclass(frozen=True)
class Axis:
    """One axis: its label, its range, and whether it is logarithmic."""

    label: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, label: str, values: Sequence[float], *, log: bool = False, zero: bool = False) -> Axis:
        """An axis that holds all values; a flat range is widened so that nothing divides by zero."""
        known = [value for value in values if not log or value > 0] or [1.0]
        low, high = (0.0 if zero and not log else min(known)), max(known)
        if high <= low:
            low, high = (low / 2, high * 2) if log else (low, low + 1)
        return cls(label, low, high, log)

    def place(self, value: float) -> float:
        """Where a value is, from 0 to 1."""
        if self.log:
            value, low, high = (math.log10(max(v, self.low)) for v in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def list_ticks(self) -> list[float]:
        """Round numbers within the range."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            step = max(1, (last - first) // 6)
            return [
                10.0**power for power in range(first, last + 1, step) if self.low <= 10.0**power <= self.high
            ]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next((m for m in (1, 2, 5) if (self.high - self.low) / (step * m) <= 6), 10)
        first = math.ceil(self.low / step)
        return [step * k for k in range(first, int(self.high / step) + 1)]


def draw_line(
    x: Axis,
    y: Axis,
    series: Mapping[str, Sequence[tuple[float, float]]],
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Lines over a common pair of axes; `marks` are labelled vertical lines (a restart, a context length)."""
    px, py = _make_placers(x, y)
    body = [_draw_frame(x, y)]
    for number, (name, points) in enumerate(series.items()):
        path = " ".join(f"{px(a):.1f},{py(b):.1f}" for a, b in points)
        body.append(
            f'<polyline class="s{number % 4}" points="{path}"><title>{escape(name)}</title></polyline>'
        )
    body += [_draw_mark(px(at), label) for at, label in marks if x.low <= at <= x.high]
    return _wrap_svg(f"{y.label} by {x.label}", body)


def draw_bars(labels: Sequence[str], values: Sequence[float], y_label: str) -> str:
    """Horizontal bars, one per label; the largest value has the full width."""
    top = max(values, default=0) or 1
    rows = []
    for row, (label, value) in enumerate(zip(labels, values, strict=True)):
        y = 8 + 24 * row
        rows.append(
            f'<text x="196" y="{y + 13}" text-anchor="end">{escape(_shorten(label, 28))}</text>'
            f'<rect class="s0 fill" x="204" y="{y}" width="{360 * value / top:.1f}" height="16"/>'
            f'<text x="{210 + 360 * value / top:.1f}" y="{y + 13}">{escape(format_number(value))}</text>'
        )
    return _wrap_svg(y_label, rows, height=16 + 24 * max(len(rows), 1))


def draw_histogram(
    x: Axis,
    edges: Sequence[tuple[float, float, float]],
    y_label: str,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Boxes from (low, high, count); the x axis is usually logarithmic."""
    y = Axis.over(y_label, [count for _, _, count in edges], zero=True)
    px, py = _make_placers(x, y)
    body = [_draw_frame(x, y)]
    for low, high, count in edges:
        left, right = px(low), px(high)
        words = f"{format_number(low)} to {format_number(high)}: {format_number(count)}"
        body.append(
            _draw_box("s0", left, py(count), max(right - left - 1, 1), HEIGHT - BOTTOM - py(count), words)
        )
    body += [_draw_mark(px(at), label) for at, label in marks if x.low <= at <= x.high]
    return _wrap_svg(f"{y_label} by {x.label}", body)


def draw_timeline(spans: Sequence[tuple[float, float, str, bool]], x_label: str) -> str:
    """One thin bar per span (start, end, name, highlighted), each on its own row."""
    x = Axis.over(x_label, [edge for start, end, _, _ in spans for edge in (start, end)], zero=True)
    row = max(2.0, min(14.0, (HEIGHT - TOP - BOTTOM) / max(len(spans), 1)))
    px, _ = _make_placers(x, Axis("", 0, 1))
    body = [_draw_x_axis(x)]
    for index, (start, end, name, marked) in enumerate(spans):
        width = max(px(end) - px(start), 1)
        body.append(_draw_box("s1" if marked else "s0", px(start), TOP + index * row, width, row * 0.8, name))
    return _wrap_svg(f"units by {x_label}", body)


def format_number(value: float) -> str:
    """`format_number(1234567)` -> '1.23 M': three digits for an axis or a label."""
    for size, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _make_placers(x: Axis, y: Axis) -> tuple[Callable[[float], float], Callable[[float], float]]:
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    return lambda v: LEFT + across * x.place(v), lambda v: HEIGHT - BOTTOM - down * y.place(v)


def _draw_frame(x: Axis, y: Axis) -> str:
    _, py = _make_placers(x, y)
    lines = [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py(t):.1f}" y2="{py(t):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{py(t) + 4:.1f}" text-anchor="end">{format_number(t)}</text>'
        for t in y.list_ticks()
    ]
    middle = (HEIGHT - BOTTOM + TOP) / 2
    lines.append(
        f'<text class="label" transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(y.label)}</text>"
    )
    return "".join(lines) + _draw_x_axis(x)


def _draw_x_axis(x: Axis) -> str:
    px, _ = _make_placers(x, Axis("", 0, 1))
    base = HEIGHT - BOTTOM
    ticks = [
        f'<text x="{px(t):.1f}" y="{base + 16}" text-anchor="middle">{format_number(t)}</text>'
        for t in x.list_ticks()
    ]
    return (
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>'
        + "".join(ticks)
        + f'<text class="label" '
        f'x="{(WIDTH + LEFT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x.label)}</text>'
    )


def _draw_box(style: str, x: float, y: float, width: float, height: float, words: str) -> str:
    return (
        f'<rect class="{style} fill" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">'
        f"<title>{escape(words)}</title></rect>"
    )


def _draw_mark(at: float, label: str) -> str:
    return (
        f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        f'<text class="mark" x="{at + 4:.1f}" y="{TOP + 12}">{escape(label)}</text>'
    )


def _wrap_svg(title: str, body: Sequence[str], height: float = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title, quote=True)}">'
        + "".join(body)
        + "</svg>"
    )


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else "…" + text[1 - most :]
