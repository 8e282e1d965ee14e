"""Draw the chart of the README: speeds on unseen text.

`python benchmarks/charts.py [docs/images]` writes `encode.svg` there, from `benchmarks/results`.
"""

import json
import sys
from html import escape
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
COLOURS = {
    "tokenmill": "#0b5394",
    "gigatoken": "#b3401e",
    "fastokens": "#1f6b34",
    "tiktoken": "#6b3fa0",
    "tokenizers": "#777777",
}
CORPORA = {"en": "English", "code": "Code", "ko": "Korean", "zh": "Chinese"}


def svg(width, height, label, parts):
    """Return a picture on white, for light and dark pages."""
    style = "<style>text{font:12px system-ui,sans-serif;fill:#444}text.n{font-size:10px}text.t{font-weight:600;font-size:13px}</style>"
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
    return f"{head}{style}{ground}{''.join(parts)}</svg>\n"


def text(x, y, words, kind=""):
    return f'<text x="{x:.0f}" y="{y:.0f}"{kind}>{escape(words)}</text>'


def strip(x, y, width, height, colour):
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def encode(best):
    """Return horizontal bars: one group for each corpus, one bar for each encoder."""
    groups = {
        CORPORA[cell.split()[1]]: rows
        for cell, rows in best.items()
        if cell.startswith("o200k") and "flat unseen" in cell
    }
    top = max(row["cpu"] for rows in groups.values() for row in rows.values())
    title = "MB per CPU-second, unseen text, one thread, o200k"
    parts, y = [text(8, 18, title, ' class="t"')], 56
    for number, name in enumerate(COLOURS):
        parts += [strip(80 + 110 * number, 30, 10, 10, COLOURS[name]), text(94 + 110 * number, 39, name)]
    for group, rows in groups.items():
        parts.append(text(8, y + 34, group))
        for name, row in rows.items():
            width = 520 * row["cpu"] / top
            parts += [strip(80, y, width, 10, COLOURS[name])]
            parts += [text(84 + width, y + 9, f"{row['cpu']:.0f}", ' class="n"')]
            y += 12
        y += 14
    return svg(660, y, title, parts)


def main():
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    found = json.loads((RESULTS / "encode.json").read_text())
    (target / "encode.svg").write_text(encode(found["best"]), encoding="utf-8")
    print(f"wrote {target / 'encode.svg'}")


if __name__ == "__main__":
    main()
