"""The bars that this project set itself, and what the last run reached: one table from `benchmarks/results/*.json`.

`python benchmarks/bars.py [docs/images/bars.svg]`

A row is as good as its worst cell. A ratio is ours over the best peer's that gives the same ids; memory is the worst
ratio of our peak to that of the leaner leader. Writes `benchmarks/results/bars.json` and a chart.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
LEADERS = ("gigatoken", "fastokens")


def read(name):
    """A result of this run, or None where its script has not run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def encode_ratios(corpora, phase, peers, output="flat"):
    """{cell: ours over the best of `peers`}."""
    report = read("encode")
    ratios = {}
    for cell, ours in (report["best"]["tokenmill"] if report else {}).items():
        _, corpus, form, when = cell.split()
        if corpus in corpora and when in phase and form == output:
            theirs = [report["best"][peer][cell]["cpu"] for peer in peers if cell in report["best"][peer]]
            if theirs:
                ratios[cell] = ours["cpu"] / max(theirs)
    return ratios


def contest_ratios(name, kind, only=lambda _: True):
    """The same for results of `contest`, with ratios of peak memory."""
    report, ratios, memory = read(name), {}, {}
    for cell, rows in (report["best"] if report else {}).items():
        others = {peer: row for peer, row in rows.items() if peer != "tokenmill" and row["same"]}
        if others and only(cell):
            ratios[cell] = rows["tokenmill"][kind] / max(row[kind] for row in others.values())
            leaders = [row["memory"] for peer, row in others.items() if peer in LEADERS]
            if leaders:
                memory[cell] = rows["tokenmill"]["memory"] / max(1.0, min(leaders))
    return ratios, memory


def decode_ratios():
    report = read("decode")
    cells = report["cells"] if report else {}
    return {
        cell: row["tokenmill"] / max(v for k, v in row.items() if k != "tokenmill" and v)
        for cell, row in cells.items()
        if cell.endswith(" flat")
    }


def start_ratios():
    report, ratios, memory = read("start"), {}, {}
    for case, rows in (report["cases"] if report else {}).items():
        peers = [row for name, row in rows.items() if name in {"tiktoken", "tokenizers"}]
        ratios[case] = min(row["wall"] for row in peers) / rows["tokenmill command"]["wall"]
        memory[case] = rows["tokenmill command"]["memory"] / min(row["memory"] for row in peers)
    return ratios, memory


def train_ratios():
    rows = (read("train") or {}).get("en+ko+zh:128000", {})
    others = {name: row for name, row in rows.items() if name != "tokenmill" and "failed" not in row}
    if not others:
        return {}, {}
    fastest = min(others.values(), key=lambda row: row["seconds"])
    leanest = min(row["peak_mb"] for row in others.values())
    ours = rows["tokenmill"]
    return {"en+ko+zh": fastest["seconds"] / ours["seconds"]}, {"en+ko+zh": ours["peak_mb"] / leanest}


def prepare_ratios():
    report, ratios, memory = read("prepare"), {}, {}
    for name, result in (report["results"] if report else {}).items():
        ours, theirs = result["best"].get("tokenmill"), result["best"].get("gigatoken")
        if ours and theirs:
            ratios[f"{name} wall"] = theirs["wall"] / ours["wall"]
            ratios[f"{name} CPU"] = theirs["cpu"] / ours["cpu"]
            memory[name] = ours["peak"] / theirs["peak"]
    return ratios, memory


def rows():
    """(what, against, bar, {cell: ratio}, {cell: memory ratio})."""
    small, large = (contest_ratios("cores", "wall", lambda cell, w=w: w in cell) for w in ("small", "one"))
    words = contest_ratios("words", "cpu", lambda cell: "seen" in cell)
    imported = read("start")
    import_time = {"import": 0.1 / imported["import"]} if imported else {}
    return [
        (
            "unseen English and code, flat",
            "gigatoken",
            1.6,
            encode_ratios({"en", "code"}, {"unseen"}, ["gigatoken"]),
            {},
        ),
        ("unseen Chinese, flat", "the better leader", 2.0, encode_ratios({"zh"}, {"unseen"}, LEADERS), {}),
        ("unseen Korean, flat", "the better leader", 1.5, encode_ratios({"ko"}, {"unseen"}, LEADERS), {}),
        (
            "seen text, flat",
            "the better leader",
            1.2,
            encode_ratios({"en", "code", "ko", "zh"}, {"seen"}, LEADERS),
            {},
        ),
        (
            "to Python lists",
            "fastokens",
            1.2,
            encode_ratios({"en", "code", "ko", "zh"}, {"unseen", "seen"}, ["fastokens"], "lists"),
            {},
        ),
        ("all cores, documents of 100 bytes", "best peer", 1.5, *small),
        ("all cores, one document of 1 GB", "best peer", 1.5, *large),
        ("one long piece of 1 MB", "best peer", 1.0, *contest_ratios("pieces", "cpu")),
        ("SentencePiece-style BPE", "gigatoken", 1.5, *words),
        ("decode of flat ids", "best peer", 2.0, decode_ratios(), {}),
        ("train en+ko+zh at 128,000", "fastest peer", 10.0, *train_ratios()),
        ("prepare JSON Lines, wall and CPU", "a gigatoken script", 1.5, *prepare_ratios()),
        ("`tokenmill encode` of one line", "tiktoken, HF", 1.0, *start_ratios()),
        ("`import tokenmill`", "100 ms", 1.0, import_time, {}),
    ]


def told(row):
    """One line of the table."""
    what, against, bar, ratios, memory = row
    if not ratios:
        return {"what": what, "against": against, "bar": bar, "reached": None}
    worst, best = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
    heavy = max(memory, key=memory.get) if memory else None
    return {
        "what": what,
        "against": against,
        "bar": bar,
        "reached": ratios[worst],
        "worst": worst,
        "best": ratios[best],
        "best_cell": best,
        "below": sorted(cell for cell, ratio in ratios.items() if ratio < bar),
        "cells": len(ratios),
        "memory": memory.get(heavy),
        "memory_cell": heavy,
    }


def table(lines):
    """Markdown."""
    out = ["| what | against | bar | worst cell | best cell | cells at the bar | memory, worst |"]
    out.append("|---|---|---|---|---|---|---|")
    for line in lines:
        if line["reached"] is None:
            out.append(f"| {line['what']} | {line['against']} | {line['bar']}x | not run | | | |")
            continue
        memory = f"{line['memory']:.2f}x ({line['memory_cell']})" if line["memory"] else ""
        good = line["cells"] - len(line["below"])
        out.append(
            f"| {line['what']} | {line['against']} | {line['bar']}x | {line['reached']:.2f}x ({line['worst']}) | "
            f"{line['best']:.2f}x ({line['best_cell']}) | {good} of {line['cells']} | {memory} |"
        )
    return "\n".join(out)


def chart(lines):
    """Horizontal bars from the worst to the best cell, with a mark at the bar; all in units of the bar."""
    parts, y, scale = [], 40, 90
    for line in lines:
        parts.append(f'<text x="8" y="{y + 11}">{line["what"].replace("`", "")}</text>')
        if line["reached"] is not None:
            low, high = (min(5.0, line[key] / line["bar"]) for key in ("reached", "best"))
            width = max(3, scale * (high - low))
            parts.append(
                f'<rect x="{260 + scale * low:.0f}" y="{y}" width="{width:.0f}" height="12" fill="#0b5394"/>'
            )
            parts.append(
                f'<text class="n" x="{264 + scale * low + width:.0f}" y="{y + 10}">{line["reached"]:.1f}x</text>'
            )
        y += 22
    mark = f'<line x1="{260 + scale}" y1="30" x2="{260 + scale}" y2="{y}" stroke="#b3401e" stroke-width="2"/>'
    words = f'<text x="{226 + scale}" y="22">the bar</text>'
    style = "<style>text{font:12px system-ui,sans-serif;fill:#444}text.n{font-size:10px}</style>"
    label = "Worst to best cell of each row, in units of its bar"
    background = f'<rect width="760" height="{y + 8}" fill="#ffffff"/>'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {y + 8}" role="img" aria-label="{label}">'
    )
    return f"{head}{style}{background}{words}{mark}{''.join(parts)}</svg>\n"


def main():
    lines = [told(row) for row in rows()]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "bars.json").write_text(json.dumps(lines, indent=1))
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS / "bars.svg"
    target.write_text(chart(lines), encoding="utf-8")
    print(table(lines))


if __name__ == "__main__":
    main()
