"""Build self-contained pages: inline styles, tables with bars, SVG curves; no script, no request."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.words import number

WIDTH, HEIGHT = 640, 240
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


def cards(values: Mapping[str, object]) -> str:
    """Return the large figures at the top."""
    shown = {name: _format(value) for name, value in values.items()}
    body = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in shown.items())
    return f'<dl class="cards">{body}</dl>'


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    bar: int | None = None,
    folded: str | None = None,
) -> str:
    """Return a table; `bar` is the column that is drawn as bars too, `folded` the line that opens it."""
    rows = list(rows)
    if not rows:
        return ""
    classes = [
        " class=n" if any(isinstance(cell, int | float) for cell in column) else ""
        for column in zip(*rows, strict=True)
    ]
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(header, classes, strict=True)
    )
    lines = [
        "".join(f"<td{kind}>{escape(_format(cell))}</td>" for cell, kind in zip(row, classes, strict=True))
        for row in rows
    ]
    if bar is not None:
        head += f'<th aria-hidden="true">{escape(header[bar])}</th>'
        largest = max(row[bar] for row in rows) or 1
        lines = [line + _draw_bar(row[bar] / largest) for line, row in zip(lines, rows, strict=True)]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    name = escape(folded or ", ".join(header), quote=True)
    inner = (
        f'<div class="wide" tabindex="0" role="region" aria-label="{name}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return f"<details><summary>{escape(folded)}</summary>{inner}</details>" if folded else inner


def _draw_bar(share: float) -> str:
    return (
        '<td class="bar" aria-hidden="true"><svg viewBox="0 0 100 8" preserveAspectRatio="none">'
        f'<rect width="{100 * share:.1f}" height="8"/></svg></td>'
    )


def _format(value: object) -> str:
    return (
        f"{value:,.3f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def paragraph(text: str, *, soft: bool = False) -> str:
    """Return a paragraph of text, or nothing for an empty text."""
    return f"<p{' class=soft' if soft else ''}>{escape(text)}</p>" if text else ""


def render_settings(values: Mapping[str, object], *parts: str) -> str:
    """Return the section of the settings of a run."""
    rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in values.items()]
    return section("Settings", *parts, table(("what", "value"), rows, folded="All settings"), wide=True)


def format_rows(rows: Sequence[Sequence[object]]) -> str:
    """Return rows for a terminal: the first column to the left, all others to the right."""
    shown = [[_format(cell) for cell in row] for row in rows]
    first, *others = [len(max(column, key=len)) for column in zip(*shown, strict=True)]
    lines = []
    for name, *cells in shown:
        right = "".join(f"  {cell:>{width}}" for cell, width in zip(cells, others, strict=True))
        lines.append(f"  {name:<{first}}{right}".rstrip())
    return "\n".join(lines)


def draw_plot(
    x_label: str,
    y_label: str,
    points: Sequence[Sequence[float]],
    *,
    log: bool = False,
    marks: Sequence[float] = (),
) -> str:
    """Draw a line over a pair of axes, both logarithmic with `log`; `marks` are labelled vertical lines."""
    places = np.array(points, float).T
    xs, ys = np.log10(places) if log else places
    left, right, top, base = 72, WIDTH - 16, 12, HEIGHT - 44

    def px(value: float) -> float:
        return float(np.interp(value, (xs.min(), max(xs.max(), xs.min() + 1e-9)), (left, right)))

    def py(value: float) -> float:
        return float(np.interp(value, (ys.min(), max(ys.max(), ys.min() + 1e-9)), (base, top)))

    body = [f'<line class="axis" x1="{left}" x2="{right}" y1="{base}" y2="{base}"/>']
    for tick, label in _list_ticks(ys, log=log):
        at = py(tick)
        body.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        body.append(_draw_text(left - 6, at + 4, label, "end"))
    body += [_draw_text(px(tick), base + 16, label) for tick, label in _list_ticks(xs, log=log)]
    body.append(_draw_text((WIDTH + left) / 2, HEIGHT - 6, x_label))
    body.append(
        f'<g transform="translate(16 {(base + top) / 2}) rotate(-90)">{_draw_text(0, 0, y_label)}</g>'
    )
    path = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in zip(xs, ys, strict=True))
    body.append(f'<polyline points="{path}"/>')
    for value in marks:
        at, anchor = px(value), "end" if px(value) > right - 80 else "start"
        body.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{base}"/>')
        body.append(_draw_text(at + (4 if anchor == "start" else -4), top + 12, f"{value:,}", anchor, "mark"))
    label = escape(f"{y_label} by {x_label}", quote=True)
    plot = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(body)}</svg>'
    return f'<figure class="plot" tabindex="0">{plot}</figure>'


def _list_ticks(values: NDArray[np.float64], *, log: bool) -> list[tuple[float, str]]:
    """Return about five round numbers within the range, and their labels; powers of ten with `log`."""
    low, high = float(values.min()), float(values.max())
    power = 10.0 ** math.floor(math.log10(max(high - low, 1e-9) / 4))
    step = power * next((m for m in (1, 2, 5) if (high - low) / (power * m) <= 6), 10)
    step = max(1.0, round(step)) if log else step
    ticks = [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    shown = [(tick, 10**tick if log else tick) for tick in ticks]
    return [(at, number(value).replace(".0", "") if value >= 1000 else f"{value:g}") for at, value in shown]


def draw_ranks(points: Sequence[Mapping[str, int]]) -> str:
    """Draw how often tokens occur, by rank; an empty text without tokens."""
    shown = [(point["rank"], point["count"]) for point in points]
    return draw_plot("rank", "occurrences", shown, log=True) if shown else ""


def _draw_text(x: float, y: float, text: str, anchor: str = "middle", style: str = "") -> str:
    words = f'class="{style}" ' if style else ""
    return f'<text {words}x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
