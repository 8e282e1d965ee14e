"""The skeleton of a self-contained page: styles inlined, no script, no request."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


def code(text: str) -> str:
    """A command or a file, as it is."""
    return f"<pre>{escape(text)}</pre>"


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape(str(value))}</td>"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
    return f'<td class="n">{shown}</td>'
