"""Build self-contained pages: inline styles, tables with bars, SVG curves; no script, no request."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

STYLES = tuple(Path(__file__).with_name(name) for name in ("theme.css", "page.css"))


def page(title: str, lead: str, parts: Iterable[str]) -> bytes:
    """Return a whole HTML document; `lead` is the line below its title."""
    styles = "".join(path.read_text(encoding="utf-8") for path in STYLES)
    html = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{styles}</style></head>"
        f'<body class="report"><main><h1>{escape(title)}</h1><p class="soft">{escape(lead)}</p>'
        + "\n".join(parts)
        + "</main></body></html>\n"
    )
    return html.encode("utf-8", "backslashreplace")


def section(title: str, *parts: str, wide: bool = False) -> str:
    """Return a titled part of the page; `wide` takes the whole width. Without parts there is no section."""
    body = "".join(parts)
    return f"<section{' class=span' if wide else ''}><h2>{escape(title)}</h2>{body}</section>" if body else ""


def grid(*sections: str) -> str:
    """Return sections side by side where the window is wide enough."""
    return f'<div class="grid">{"".join(sections)}</div>'


def cards(values: Mapping[str, str]) -> str:
    """Return the large figures at the top."""
    body = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in values.items())
    return f'<dl class="cards">{body}</dl>'


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    bar: int | None = None,
    folded: str | None = None,
    label: str | None = None,
) -> str:
    """Return a table; `bar` is the column that is drawn as bars too, `folded` the line that opens it."""
    rows = [list(row) for row in rows]
    if not rows:
        return ""
    numbers = [any(_is_number(row[at]) for row in rows) for at in range(len(header))]
    largest = 0.0 if bar is None else max((_to_float(row[bar]) for row in rows), default=0.0)
    head = "".join(
        f'<th scope="col"{" class=n" if number else ""}>{escape(name)}</th>'
        for name, number in zip(header, numbers, strict=True)
    ) + (f'<th aria-hidden="true">{escape(header[bar])}</th>' if bar is not None else "")
    body = []
    for row in rows:
        cells = "".join(map(_cell, row))
        if bar is not None:
            cells += f'<td class="bar" aria-hidden="true">{_draw_bar(_to_float(row[bar]), largest)}</td>'
        body.append(f"<tr>{cells}</tr>")
    name = escape(label or folded or ", ".join(header), quote=True)
    inner = (
        f'<div class="wide" tabindex="0" role="region" aria-label="{name}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )
    return f"<details><summary>{escape(folded)}</summary>{inner}</details>" if folded else inner


def paragraph(text: str, *, soft: bool = False) -> str:
    """Return a paragraph of text."""
    return f"<p{' class=soft' if soft else ''}>{escape(text)}</p>"


def render_settings(values: Mapping[str, object], *parts: str) -> str:
    """Return the section of the settings of a run."""
    rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in values.items()]
    return section("Settings", *parts, table(("what", "value"), rows, folded="All settings"), wide=True)


def format_number(value: float) -> str:
    """Format a number with three digits: 1234567 -> '1.23 M'."""
    for size, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def format_rows(rows: Sequence[Sequence[object]]) -> str:
    """Return rows for a terminal: the first column to the left, all others to the right."""
    shown = [[_format(cell) for cell in row] for row in rows]
    first, *others = [len(max(column, key=len)) for column in zip(*shown, strict=True)]
    lines = []
    for name, *cells in shown:
        right = "".join(f"  {cell:>{width}}" for cell, width in zip(cells, others, strict=True))
        lines.append(f"  {name:<{first}}{right}".rstrip())
    return "\n".join(lines)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _to_float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _format(value: object) -> str:
    if not _is_number(value):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def _cell(value: object) -> str:
    return f"<td{' class=n' if _is_number(value) else ''}>{escape(_format(value))}</td>"


def _draw_bar(value: float, largest: float) -> str:
    share = 100 * value / largest if largest else 0
    return f'<svg viewBox="0 0 100 8" preserveAspectRatio="none"><rect width="{share:.1f}" height="8"/></svg>'


WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 12, 44


@dataclass(frozen=True)
class Axis:
    """One axis: its label, its range, and True for a logarithmic scale."""

    label: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, label: str, values: Sequence[float], *, log: bool = False) -> Axis:
        """Return an axis that spans all values; an empty range is widened to avoid division by zero."""
        known = [value for value in values if not log or value > 0] or [1.0]
        low, high = min(known), max(known)
        if high <= low:
            low, high = (low / 2, high * 2) if log else (low, low + 1)
        return cls(label, low, high, log)

    def place(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 1."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log10(max(v, self.low)) for v in (value, low, high))
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def list_ticks(self) -> list[float]:
        """Return round numbers within the range."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            powers = range(first, last + 1, max(1, (last - first) // 6))
            return [10.0**power for power in powers if self.low <= 10.0**power <= self.high]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next((m for m in (1, 2, 5) if (self.high - self.low) / (step * m) <= 6), 10)
        return [step * k for k in range(math.ceil(self.low / step), int(self.high / step) + 1)]


def draw_plot(
    x: Axis, y: Axis, points: Sequence[Sequence[float]], marks: Sequence[tuple[float, str]] = ()
) -> str:
    """Draw a line over a pair of axes; `marks` are labelled vertical lines."""
    base, right = HEIGHT - BOTTOM, WIDTH - RIGHT

    def px(value: float) -> float:
        return LEFT + (right - LEFT) * x.place(value)

    def py(value: float) -> float:
        return base - (base - TOP) * y.place(value)

    body = [f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{base}" y2="{base}"/>']
    for tick in y.list_ticks():
        at = py(tick)
        body.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        body.append(_draw_text(LEFT - 6, at + 4, format_number(tick), "end"))
    body += [_draw_text(px(tick), base + 16, format_number(tick)) for tick in x.list_ticks()]
    body.append(_draw_text((WIDTH + LEFT) / 2, HEIGHT - 6, x.label))
    middle = (base + TOP) / 2
    body.append(f'<g transform="translate(16 {middle}) rotate(-90)">{_draw_text(0, 0, y.label)}</g>')
    path = " ".join(f"{px(a):.1f},{py(b):.1f}" for a, b in points)
    body.append(f'<polyline points="{path}"/>')
    for value, label in marks:
        if x.low <= value <= x.high:
            at = px(value)
            body.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{base}"/>')
            aside = 'text-anchor="end" ' if at > right - 80 else ""
            at += -4 if aside else 4
            body.append(f'<text class="mark" {aside}x="{at:.1f}" y="{TOP + 12}">{escape(label)}</text>')
    label = escape(f"{y.label} by {x.label}", quote=True)
    plot = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(body)}</svg>'
    return f'<figure class="plot" tabindex="0">{plot}</figure>'


def draw_ranks(points: Sequence[Mapping[str, int]]) -> str:
    """Draw how often tokens occur, by rank; an empty text without tokens."""
    if not points:
        return ""
    x = Axis.over("rank", [point["rank"] for point in points], log=True)
    y = Axis.over("occurrences", [point["count"] for point in points], log=True)
    return draw_plot(x, y, [(point["rank"], point["count"]) for point in points])


def _draw_text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
