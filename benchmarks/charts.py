"""The figures of `benchmarks/results/encode.json` as a chart for the README, and as its short table.

`python benchmarks/charts.py [docs/images/encode.svg]`
"""

import json
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
COLOURS = {
    "tokenmill": "#0b5394",
    "gigatoken": "#b3401e",
    "fastokens": "#1f6b34",
    "tiktoken": "#6b3fa0",
    "tokenizers": "#777777",
}
CORPORA = ("en", "code", "ko", "zh")
VOCABULARIES = ("gpt2", "cl100k", "o200k")


def speed(best, peer, vocabulary, corpus):
    """MB per CPU-second on unseen text; a peer without flat output is taken by its lists."""
    cells = best[peer]
    found = cells.get(f"{vocabulary} {corpus} flat unseen") or cells.get(
        f"{vocabulary} {corpus} lists unseen"
    )
    return found["cpu"]


def chart(best):
    """Horizontal bars: one group a vocabulary and corpus, one bar an encoder."""
    top = max(speed(best, peer, v, c) for peer in best for v in VOCABULARIES for c in CORPORA)
    rows, y = [], 34
    for vocabulary in VOCABULARIES:
        for corpus in CORPORA:
            rows.append(f'<text x="8" y="{y + 28}">{vocabulary}, {corpus}</text>')
            for peer in best:
                value = speed(best, peer, vocabulary, corpus)
                rows.append(
                    f'<rect x="110" y="{y}" width="{480 * value / top:.1f}" height="8" fill="{COLOURS[peer]}"/>'
                )
                rows.append(
                    f'<text class="n" x="{114 + 480 * value / top:.1f}" y="{y + 8}">{value:.0f}</text>'
                )
                y += 10
            y += 12
    legend = "".join(
        f'<rect x="{110 + 105 * n}" y="8" width="10" height="10" fill="{COLOURS[p]}"/><text x="{124 + 105 * n}" y="17">{escape(p)}</text>'
        for n, p in enumerate(best)
    )
    style = "<style>text{font:12px system-ui,sans-serif;fill:#444}text.n{font-size:9px}</style>"
    background = f'<rect width="660" height="{y}" fill="#ffffff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 {y}" role="img" aria-label="MB per CPU-second, unseen text">{style}{background}{legend}{"".join(rows)}</svg>\n'


def table(best):
    """The README's rows: ours, and how many times each peer's."""
    others = [peer for peer in best if peer != "tokenmill"]
    lines = [
        "| unseen text, one thread | tokenmill, MB per CPU-second | "
        + " | ".join(f"x {peer}" for peer in others)
        + " |"
    ]
    lines.append("|---" * (len(others) + 2) + "|")
    for vocabulary in VOCABULARIES:
        for corpus in CORPORA:
            ours = speed(best, "tokenmill", vocabulary, corpus)
            ratios = [f"{ours / speed(best, peer, vocabulary, corpus):.1f}" for peer in others]
            lines.append(f"| {vocabulary}, {corpus} | {ours:.0f} | " + " | ".join(ratios) + " |")
    return "\n".join(lines)


def main():
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "encode.svg"
    report = json.loads((RESULTS / "encode.json").read_text())
    target.write_text(chart(report["best"]), encoding="utf-8")
    print(
        f"{report['machine']}; "
        + ", ".join(f"{name} {version}" for name, version in report["versions"].items())
        + "\n"
    )
    print(table(report["best"]))


if __name__ == "__main__":
    main()
