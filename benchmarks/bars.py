"""The bars that this project set itself, and what the last run reached: one table from `benchmarks/results/*.json`.

`python benchmarks/bars.py`

A row is as good as its worst cell. A ratio is ours over the best peer's that gives the same output; memory is our peak
over that of the leaner leader. Writes `benchmarks/results/bars.json`.
"""

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
LEADERS = ("gigatoken", "fastokens")
# MB per CPU-second that a long piece must reach, whatever the peers do.
FLOOR = 30


def read(name):
    """A result of this run; empty where its script has not run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def contest(name, kind="cpu", only=lambda _: True, peers=None):
    """({cell: ours over the best of `peers`}, {cell: our peak over the leaner leader's}) of a contest."""
    ratios, memory = {}, {}
    for cell, rows in read(name).get("best", {}).items():
        good = {peer: row for peer, row in rows.items() if peer != "tokenmill" and row["same"]}
        others = [row[kind] for peer, row in good.items() if peers is None or peer in peers]
        if others and only(cell):
            ratios[cell] = rows["tokenmill"][kind] / max(others)
            leaders = [row["memory"] for peer, row in good.items() if peer in LEADERS]
            memory |= {cell: rows["tokenmill"]["memory"] / min(leaders)} if leaders else {}
    return ratios, memory


def encode(corpora, phases, peers, forms=("flat", "buffers")):
    """The cells of `encode` that a row is about."""

    def wanted(cell):
        _, corpus, form, phase = cell.split()
        return corpus in corpora and form in forms and phase in phases

    return contest("encode", "cpu", wanted, peers)


def families(phase, peers=None):
    """The cells of `all_families` in one phase: every vocabulary and language."""
    return contest("families", "cpu", lambda cell: cell.endswith(f" {phase}"), peers)


def floor():
    """Long pieces, against a speed and not against a peer."""
    cells = read("pieces").get("best", {})
    return {cell: rows["tokenmill"]["cpu"] / FLOOR for cell, rows in cells.items()}, {}


def start():
    ratios, memory = {}, {}
    for case, rows in read("start").get("cases", {}).items():
        peers = [row for name, row in rows.items() if name in {"tiktoken", "tokenizers"} and "wall" in row]
        ratios[case] = min(row["wall"] for row in peers) / rows["tokenmill command"]["wall"]
        memory[case] = rows["tokenmill command"]["memory"] / min(row["memory"] for row in peers)
    return ratios, memory


def imported():
    seconds = read("start").get("import")
    return ({"import": 0.1 / seconds} if seconds else {}), {}


def train():
    ratios, memory = {}, {}
    for case, rows in read("train").items():
        others = [row for name, row in rows.items() if name != "tokenmill" and "failed" not in row]
        if case == "en+ko+zh:128000" and others:
            ratios[case] = min(row["seconds"] for row in others) / rows["tokenmill"]["seconds"]
        if others:
            memory[case] = rows["tokenmill"]["peak_mb"] / min(row["peak_mb"] for row in others)
    return ratios, memory


def prepare(peer):
    """Return the steady speed against a peer, wall and CPU, and our peak memory over its."""
    ratios, memory = {}, {}
    for name, result in read("prepare").get("results", {}).items():
        ours, theirs = result["best"].get("tokenmill"), result["best"].get(peer)
        if ours and theirs:
            both = ours["steady"], theirs["steady"]
            ratios |= {f"{name} {kind}": both[0][kind] / both[1][kind] for kind in ("wall", "cpu")}
            memory[name] = ours["peak"] / theirs["peak"]
    return ratios, memory


# What, against whom, the bar, what is hoped for, and the cells.
ROWS = (
    ("unseen, every family and language", "best peer", 1.5, 2.5, families("unseen")),
    ("seen, every family and language", "best peer", 1.2, 2.0, families("seen")),
    ("every family and language", "HF tokenizers 1.0", 3.0, 6.0, families("unseen", ("tokenizers",))),
    ("unseen English and code", "gigatoken", 1.6, 2.5, encode({"en", "code"}, {"unseen"}, ("gigatoken",))),
    ("unseen Chinese", "the better leader", 2.0, 4.0, encode({"zh"}, {"unseen"}, LEADERS)),
    ("unseen Korean", "the better leader", 1.5, 3.0, encode({"ko"}, {"unseen"}, LEADERS)),
    ("seen text", "the better leader", 1.2, 2.0, encode({"en", "code", "ko", "zh"}, {"seen"}, LEADERS)),
    (
        "to Python lists",
        "fastokens",
        1.2,
        2.0,
        encode({"en", "code", "ko", "zh"}, {"unseen", "seen"}, ("fastokens",), ("lists",)),
    ),
    (
        "all cores, documents of 100 bytes",
        "best peer",
        1.5,
        2.5,
        contest("cores", "wall", lambda cell: "100 bytes" in cell),
    ),
    (
        "all cores, one large document",
        "best peer",
        1.5,
        2.5,
        contest("cores", "wall", lambda cell: "one document" in cell),
    ),
    ("one long piece of 1 MB", "best peer", 1.0, None, contest("pieces")),
    ("one long piece of 1 MB", f"{FLOOR} MB per CPU-second", 1.0, None, floor()),
    ("SentencePiece-style BPE", "gigatoken", 1.5, 4.0, contest("words", peers=("gigatoken",))),
    (
        "decode of flat ids",
        "best peer",
        2.0,
        None,
        contest("decode", only=lambda cell: cell.endswith(" flat")),
    ),
    ("train en+ko+zh at 128,000", "fastest peer", 12.0, 20.0, train()),
    ("prepare, steady, wall and CPU", "a gigatoken script", 2.0, 4.0, prepare("gigatoken")),
    ("prepare, steady, wall and CPU", "Megatron's fast recipe", 2.0, 4.0, prepare("megatron_fast")),
    ("prepare, steady, wall and CPU", "datasets.map", 80.0, 150.0, prepare("huggingface")),
    ("`tokenmill encode` of one line", "tiktoken, HF", 1.0, None, start()),
    ("`import tokenmill`", "100 ms", 1.0, None, imported()),
)


def told(what, against, bar, hoped, ratios):
    """One line of the table; the bar is a least, and every cell counts."""
    line = {"what": what, "against": against, "bar": bar, "hoped": hoped, "cells": len(ratios)}
    if ratios:
        worst, best = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
        below = sorted(cell for cell, ratio in ratios.items() if ratio < bar)
        line |= {"worst": ratios[worst], "worst_cell": worst, "best": ratios[best], "best_cell": best}
        line |= {"below": below, "met": not below}
    return line


def lines():
    """All rows, and memory as the last: there a ratio is turned over, so that more is better."""
    found = [told(what, against, bar, hoped, ratios) for what, against, bar, hoped, (ratios, _) in ROWS]
    lean = {f"{what}: {cell}": 1 / ratio for what, *_, (_, memory) in ROWS for cell, ratio in memory.items()}
    return [*found, told("peak memory in every row", "the leaner leader", 1.0, None, lean)]


def table(found):
    """Markdown."""
    out = ["| what | against | bar | hoped | worst cell | best cell | cells at the bar | |"]
    out.append("|---|---|---|---|---|---|---|---|")
    for line in found:
        row = [line["what"], line["against"], f"{line['bar']}x", f"{line['hoped']}x" if line["hoped"] else ""]
        if line["cells"]:
            row += [f"{line[key]:.2f}x ({line[key + '_cell']})" for key in ("worst", "best")]
            row += [f"{line['cells'] - len(line['below'])} of {line['cells']}"]
        row += ["not run" if "met" not in line else "met" if line["met"] else "not met"]
        out.append("| " + " | ".join(row if line["cells"] else [*row[:4], "", "", "", row[-1]]) + " |")
    return "\n".join(out)


def main():
    found = lines()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "bars.json").write_text(json.dumps(found, indent=1))
    print(table(found))
    for line in found:
        if line.get("below"):
            print(f"\nUnder the bar of {line['bar']}x, {line['what']}: {'; '.join(line['below'])}")


if __name__ == "__main__":
    main()
