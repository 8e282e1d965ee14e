"""Build self-contained pages: inline styles, tables and SVG plots; no script, no request."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")


def page(title: str, parts: Iterable[str]) -> str:
    """Return a whole HTML document."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
        + "\n".join(parts)
        + "</main></body></html>\n"
    )


def section(title: str, *parts: str) -> str:
    """Return a titled part of the page."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def cards(values: dict[str, str]) -> str:
    """Return the large figures at the top."""
    body = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in values.items())
    return f'<dl class="cards">{body}</dl>'


def table(header: Sequence[str], rows: Iterable[Sequence[object]], *, folded: bool = True) -> str:
    """Return a table, folded away under one line unless `folded` is False."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    label = escape(header[0], quote=True)
    inner = f'<div class="wide" tabindex="0" role="region" aria-label="{label}, as a table">'
    inner += f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    return f"<details><summary>As a table</summary>{inner}</details>" if folded else inner


def paragraph(text: str, *, soft: bool = False) -> str:
    """Return a paragraph of text."""
    return f"<p{' class=soft' if soft else ''}>{escape(text)}</p>"


def bars_section(title: str, header: tuple[str, str], values: Mapping[str, float]) -> str:
    """Return a section with one bar per value, and their table."""
    return section(title, draw_bars(values, header[1]), table(header, values.items()))


def code(text: str) -> str:
    """Return a text in a fixed-width font."""
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
        """Return an axis that spans all values; a flat range is widened, so that nothing divides by zero."""
        known = [value for value in values if not log or value > 0] or [1.0]
        low, high = (0.0 if zero and not log else min(known)), max(known)
        if high <= low:
            low, high = (low / 2, high * 2) if log else (low, low + 1)
        return cls(label, low, high, log)

    def place(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 1."""
        if self.log:
            value, low, high = (math.log10(max(v, self.low)) for v in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def list_ticks(self) -> list[float]:
        """Return round numbers within the range."""
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


@dataclass(frozen=True)
class Box:
    """A filled rectangle in the units of the axes, with a text shown by pointing at it."""

    left: float
    right: float
    bottom: float
    top: float
    text: str
    style: str = "s0"


def draw_plot(
    x: Axis,
    y: Axis,
    *,
    lines: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    boxes: Sequence[Box] = (),
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Draw lines and boxes over a pair of axes; `marks` are labelled vertical lines.

    A y axis without a label has no ticks.
    """
    base, right = HEIGHT - BOTTOM, WIDTH - RIGHT

    def px(value: float) -> float:
        return LEFT + (right - LEFT) * x.place(value)

    def py(value: float) -> float:
        return base - (base - TOP) * y.place(value)

    body = [f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{base}" y2="{base}"/>']
    for tick in y.list_ticks() if y.label else ():
        at = py(tick)
        body.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        body.append(_draw_text(LEFT - 6, at + 4, format_number(tick), "end"))
    body += [_draw_text(px(tick), base + 16, format_number(tick)) for tick in x.list_ticks()]
    body.append(_draw_text((WIDTH + LEFT) / 2, HEIGHT - 6, x.label))
    body.append(
        f'<g transform="translate(14 {(base + TOP) / 2}) rotate(-90)">{_draw_text(0, 0, y.label)}</g>'
    )
    for box in boxes:
        left, top = px(box.left), py(box.top)
        width, height = max(px(box.right) - left - 1, 1), py(box.bottom) - top
        body.append(
            f'<rect class="{box.style} fill" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}"><title>{escape(box.text)}</title></rect>'
        )
    for number, (name, points) in enumerate((lines or {}).items()):
        path = " ".join(f"{px(a):.1f},{py(b):.1f}" for a, b in points)
        title = f"<title>{escape(name)}</title>"
        body.append(f'<polyline class="s{number % 4}" points="{path}">{title}</polyline>')
    for value, label in marks:
        if x.low <= value <= x.high:
            at = px(value)
            body.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{base}"/>')
            body.append(f'<text class="mark" x="{at + 4:.1f}" y="{TOP + 12}">{escape(label)}</text>')
    return _wrap_svg(f"{y.label} by {x.label}", body)


def draw_bars(values: Mapping[str, float], label: str) -> str:
    """Draw one horizontal bar per value; the largest has the full width."""
    largest = max(values.values(), default=0) or 1
    body = []
    for row, (name, value) in enumerate(values.items()):
        y, width = 8 + 24 * row, 360 * value / largest
        body.append(_draw_text(196, y + 13, name if len(name) <= 28 else f"…{name[-27:]}", "end"))
        body.append(f'<rect class="s0 fill" x="204" y="{y}" width="{width:.1f}" height="16"/>')
        body.append(_draw_text(210 + width, y + 13, format_number(value), "start"))
    return _wrap_svg(label, body, height=16 + 24 * max(len(values), 1))


def format_number(value: float) -> str:
    """Format a number with three digits: 1234567 -> '1.23 M'."""
    for size, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _draw_text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _wrap_svg(title: str, body: Sequence[str], height: float = HEIGHT) -> str:
    label = escape(title, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{label}">{"".join(body)}</svg>'
