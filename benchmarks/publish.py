"""Puts the tables of the last `make bench` into README.md and docs/performance.md.

`python benchmarks/publish.py`

Where a page says `<!-- figures: NAME -->`, everything up to the next `<!-- end of figures -->` is replaced by what NAME printed
(`benchmarks/results/tables.md`), or, for `summary`, by the short table of unseen text. So no figure is copied by hand.
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
    parts = re.split(r"^## (\w+)\n", (RESULTS / "tables.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
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


def main():
    tables = printed() | {"summary": summary()}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        missing = [name for _, name, _ in BLOCK.findall(text) if name not in tables]
        if missing:
            sys.exit(f"{page.name} asks for {', '.join(missing)}, which the last run did not print")
        page.write_text(
            BLOCK.sub(lambda block: f"{block[1]}{tables[block[2]]}\n{block[3]}", text), encoding="utf-8"
        )
        print(f"wrote {page.name}")


if __name__ == "__main__":
    main()
