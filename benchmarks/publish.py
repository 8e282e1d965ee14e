"""Puts the tables of the last `make bench` into README.md and docs/performance.md.

`python benchmarks/publish.py`

Where a page says `<!-- figures: NAME -->`, everything up to the next `<!-- end of figures -->` is replaced by what NAME printed
(`benchmarks/results/tables.md`); for `summary` by the short table of unseen text, for `matrix` by every family and language against the
best peer. So no figure is copied by hand.
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGES = (HERE.parent / "README.md", HERE.parent / "docs" / "performance.md")
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
PEERS = ("gigatoken", "fastokens", "tiktoken", "tokenizers")


def printed():
    """{script: what it printed} of the last run."""
    path = RESULTS / "tables.md"
    told = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = re.split(r"^## (\w+)\n", told, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


def summary():
    """The README's table: unseen text from strings, ours and how many times each peer's."""
    report = json.loads((RESULTS / "encode.json").read_text())
    lines = [f"{report['machine']}; " + ", ".join(f"{p} {v}" for p, v in report["versions"].items()) + ":\n"]
    lines.append(
        "| unseen text, one thread | tokenmill, MB per CPU-second | "
        + " | ".join(f"x {p}" for p in PEERS)
        + " |"
    )
    lines.append("|---" * (len(PEERS) + 2) + "|")
    for cell, rows in report["best"].items():
        if cell.endswith(" flat unseen"):
            ours = rows["tokenmill"]["cpu"]
            ratios = [f"{ours / rows[peer]['cpu']:.1f}" if peer in rows else "-" for peer in PEERS]
            name = ", ".join(cell.removesuffix(" flat unseen").split())
            lines.append(f"| {name} | {ours:.0f} | " + " | ".join(ratios) + " |")
    return "\n".join(lines)


def matrix():
    """Every family and language: ours over the best peer's, unseen / seen; and over Hugging Face's 1.0."""
    report = json.loads((RESULTS / "families.json").read_text())
    names = dict.fromkeys(tuple(cell.split()[:2]) for cell in report["best"])
    families, languages = (list(dict.fromkeys(part)) for part in zip(*names, strict=True))
    lines = [f"{report['machine']}; " + ", ".join(f"{p} {v}" for p, v in report["versions"].items()) + ":\n"]
    for title, only in (("x the best peer", None), ("x tokenizers 1.0", "tokenizers")):
        lines += [f"| {title}, unseen / seen | " + " | ".join(languages) + " |"]
        lines += ["|---" * (len(languages) + 1) + "|"]
        for family in families:
            row = [_times(report["best"], f"{family} {language}", only) for language in languages]
            lines.append(f"| {family} | " + " | ".join(row) + " |")
        lines.append("")
    return "\n".join(lines).rstrip()


def _times(best, cell, only):
    """`1.52 / 1.31`: one cell of the matrix."""
    told = []
    for phase in ("unseen", "seen"):
        rows = best[f"{cell} {phase}"]
        others = [r["cpu"] for p, r in rows.items() if p != "tokenmill" and r["same"] and only in (None, p)]
        told.append(f"{rows['tokenmill']['cpu'] / max(others):.2f}" if others else "-")
    return " / ".join(told)


def main():
    printed_by, made = printed(), {"summary": summary, "matrix": matrix}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        names = {name for _, name, _ in BLOCK.findall(text)}
        missing = sorted(names - made.keys() - printed_by.keys())
        if missing:
            sys.exit(f"{page.name} asks for {', '.join(missing)}, which the last run did not print")
        tables = {name: made[name]() if name in made else printed_by[name] for name in names}
        page.write_text(
            BLOCK.sub(lambda block, tables=tables: f"{block[1]}{tables[block[2]]}\n{block[3]}", text),
            encoding="utf-8",
        )
        print(f"wrote {len(names)} tables to {page.name}")


if __name__ == "__main__":
    main()
