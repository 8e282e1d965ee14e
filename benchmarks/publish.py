"""Write the results of the last `make bench` to README.md, docs/performance.md and `benchmarks/results/*.csv`.

`python benchmarks/publish.py`

Every table that a script printed (`benchmarks/results/tables.md`) becomes a CSV file of the same name, which
docs/performance.md links. Between `<!-- figures: NAME -->` and `<!-- end of figures -->` a page has the table that the
function NAME below selects from these. No figure is copied by hand.
"""

import csv
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGES = (
    *(HERE.parent / f"README{language}.md" for language in ("", ".ko", ".zh")),
    HERE.parent / "docs" / "performance.md",
)
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
PEERS = ("gigatoken", "fastokens", "tiktoken", "tokenizers")
# What `make bench-families` writes on a CPU with AVX-512.
FAMILIES = ("families", "families-avx2")
# Rows of the README: script, cell, unit.
HEADLINES = (
    ("encode", "o200k en flat unseen", "MB/CPU-s"),
    ("encode", "o200k code flat unseen", "MB/CPU-s"),
    ("encode", "o200k ko flat unseen", "MB/CPU-s"),
    ("encode", "o200k zh flat unseen", "MB/CPU-s"),
    ("cores", "en one document, flat", "MB/s"),
    ("decode", "o200k en flat", "MB/CPU-s"),
)
# The words of the README's table: its header, the headlines, then `train` and `prepare`.
WORDS = {
    "en": (
        "task", "fastest peer", "ratio", "encode English (o200k, 1 thread)", "encode code", "encode Korean", "encode Chinese",
        "encode one 400 MB document (2 cores)", "decode English", "train 128,000 tokens on 94 MB (en, ko, zh)", "prepare 1 GB of JSON Lines",
    ),
    "ko": (
        "작업", "가장 빠른 경쟁 도구", "배수", "영어 인코딩 (o200k, 스레드 1개)", "코드 인코딩", "한국어 인코딩", "중국어 인코딩",
        "400 MB 문서 하나 인코딩 (코어 2개)", "영어 디코딩", "94 MB(영·한·중)로 토큰 128,000개 학습", "JSON Lines 1 GB 준비",
    ),
    "zh": (
        "任务", "最快的同类工具", "倍数", "编码英文（o200k，单线程）", "编码代码", "编码韩文", "编码中文",
        "编码一篇 400 MB 的文档（双核）", "解码英文", "用 94 MB（英、韩、中）训练 128,000 个 token", "制备 1 GB 的 JSON Lines",
    ),
}  # fmt: skip


def read_printed():
    """Return {script: text} of the last run."""
    path = RESULTS / "tables.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = re.split(r"^## (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


def parse_tables(text):
    """Return the rows of all tables of a text, each a dict; `table` is the heading above a table, if it has one."""
    rows, heading, names = [], "", None
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        cells = [cell.strip() for cell in line.strip()[1:-1].split("|")] if line.startswith("|") else None
        if cells is None:
            names = None
        elif names is None:
            names = cells
        elif not line.startswith("|---"):
            rows.append(({"table": heading} if heading else {}) | dict(zip(names, cells, strict=False)))
    return rows


def write_csv(name, rows):
    """Write rows to `results/NAME.csv`."""
    with (RESULTS / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(
            file, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(rows)


def split_ratio(cell):
    """Return speed and ratio of a cell such as `186 (1.59x)`."""
    speed, _, ratio = cell.partition(" (")
    return speed, ratio.removesuffix("x)")


def find_best_peer(row):
    """Return name, speed and ratio of the fastest peer of a row."""
    peers = {name: split_ratio(cell) for name, cell in row.items() if cell.endswith("x)")}
    name = min(peers, key=lambda peer: float(peers[peer][1]))
    return name, *peers[name]


def tidy(row):
    """Return one row for each encoder of a contest's row: cell, encoder, speed, ratio, peak memory."""
    names = [name for name in row if name not in ("cell", "peak MB")]
    for name, peak in zip(names, row["peak MB"].split(" / "), strict=True):
        speed, ratio = split_ratio(row[name])
        if speed != "-":
            yield {
                "cell": row["cell"],
                "encoder": name,
                "MB/s": speed,
                "tokenmill / encoder": ratio or "1.00",
                "peak MB": peak,
            }


def summary(printed, language="en"):
    """Return the table of the README: one row for each headline, with the fastest peer."""
    task, peer_title, ratio_title, *words = WORDS[language]
    lines = [f"| {task} | tokenmill | {peer_title} | {ratio_title} |", "|---|---|---|---|"]
    for (script, cell, unit), name in zip(HEADLINES, words, strict=False):
        row = next(row for row in parse_tables(printed[script]) if row["cell"] == cell)
        peer, speed, ratio = find_best_peer(row)
        lines.append(f"| {name} | {row['tokenmill']} {unit} | {peer} {speed} | {float(ratio):.1f}x |")
    case = parse_tables(printed["train"])[:6]
    jobs = [
        row for row in parse_tables(printed["prepare"]) if row["input"] == "en jsonl" and row["MB"] == "1000"
    ]
    for name, rows, system, peak in (
        (words[-2], case, "trainer", "peak RSS MB"),
        (words[-1], jobs, "system", "peak MB"),
    ):
        ours, *others = (
            row
            for row in rows
            if row["wall s"].replace(".", "").isdigit() and row[system] != "tokenmill-again"
        )
        best = min(others, key=lambda row: float(row["wall s"]))
        ratio = float(best["wall s"]) / float(ours["wall s"])
        times = [f"{float(row['wall s']):.3g} s, {float(row[peak]) / 1000:.2f} GB" for row in (ours, best)]
        lines.append(f"| {name} | {times[0]} | {best[system]} {times[1]} | {ratio:.1f}x |")
    return "\n".join(lines)


def summary_ko(printed):
    """Return the table of the Korean README."""
    return summary(printed, "ko")


def summary_zh(printed):
    """Return the table of the Chinese README."""
    return summary(printed, "zh")


def unseen(printed):
    """Return the speeds on unseen text from strings, ours and how many times each peer's."""
    lines = ["| vocabulary, corpus | tokenmill | " + " | ".join(f"x {peer}" for peer in PEERS) + " |"]
    lines.append("|---" * (len(PEERS) + 2) + "|")
    for row in parse_tables(printed["encode"]):
        if row["cell"].endswith(" flat unseen") and row["cell"].startswith("o200k"):
            ratios = [split_ratio(row[peer])[1] for peer in PEERS]
            name = ", ".join(row["cell"].removesuffix(" flat unseen").split())
            lines.append(f"| {name} | {row['tokenmill']} | " + " | ".join(ratios) + " |")
    return "\n".join(lines)


def train(printed):
    """Return wall time and peak memory of every trainer, one column for each corpus."""
    cases = {}
    for row in parse_tables(printed["train"]):
        memory = f", {row['peak RSS MB']} MB" if row["peak RSS MB"] else ""
        cases.setdefault(row["table"], {})[row["trainer"]] = row["wall s"].removesuffix(" s") + f" s{memory}"
    lines = ["| trainer | " + " | ".join(cases) + " |", "|---" * (len(cases) + 1) + "|"]
    trainers = dict.fromkeys(name for case in cases.values() for name in case)
    lines += [
        f"| {name} | " + " | ".join(case.get(name, "") for case in cases.values()) + " |" for name in trainers
    ]
    return "\n".join(lines)


def prepare(printed):
    """Return time, memory and steady ratio of every system that read the same 1 GB."""
    lines = ["| input | system | wall s | peak MB | steady ratio |", "|---|---|---|---|---|"]
    for row in parse_tables(printed["prepare"]):
        if row["MB"] == "1000" and row["system"] != "tokenmill-again" and row["input"] != "en packed":
            ratio = row["steady ratio: wall, CPU"].split(", ")[0]
            lines.append(
                f"| {row['input'][3:]} | {row['system']} | {row['wall s']} | {row['peak MB']} | {ratio} |"
            )
    return "\n".join(lines)


def list_families():
    """Return a row for each family, language and phase: ours over the best peer's on both kinds of CPU, and over Hugging Face's 1.0."""
    best, avx2 = (json.loads((RESULTS / f"{name}.json").read_text())["best"] for name in FAMILIES)
    rows = []
    for cell, found in best.items():
        row = dict(zip(("family", "language", "text"), cell.split(), strict=True))
        row["x best peer"] = f"{compare(found):.2f}"
        row["x best peer, AVX2"] = f"{compare(avx2[cell]):.2f}"
        has_hf = found.get("tokenizers", {}).get("same")
        rows.append(row | {"x tokenizers 1.0": f"{compare(found, ['tokenizers']):.2f}" if has_hf else ""})
    return rows


def compare(found, peers=None):
    """Return our speed over that of the fastest of these peers, or of all, that gave the same ids."""
    speeds = {peer: row["cpu"] for peer, row in found.items() if row["same"]}
    ours = speeds.pop("tokenmill")
    return ours / max(speeds[peer] for peer in peers or speeds)


def matrix(_printed, column="x best peer"):
    """Return every family and language: ours over the best peer's, unseen/seen."""
    rows = list(csv.DictReader((RESULTS / "families.csv").open(encoding="utf-8")))
    families, languages = (list(dict.fromkeys(row[key] for row in rows)) for key in ("family", "language"))
    ratios = {(row["family"], row["language"], row["text"]): row[column] for row in rows}
    lines = ["| unseen/seen | " + " | ".join(languages) + " |", "|---" * (len(languages) + 1) + "|"]
    for family in families:
        cells = [
            "/".join(f"{float(ratios[family, language, text]):.1f}" for text in ("unseen", "seen"))
            for language in languages
        ]
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def matrix_avx2(printed):
    """Return the same with AVX2 only."""
    return matrix(printed, "x best peer, AVX2")


TABLES = {
    table.__name__: table
    for table in (summary, summary_ko, summary_zh, unseen, train, prepare, matrix, matrix_avx2)
}


def main():
    printed = read_printed()
    if not printed:
        sys.exit(f"{RESULTS / 'tables.md'} is missing or empty: run make bench first")
    for name, text in printed.items():
        if name != "bars":  # our own targets; `bars.json` has them
            rows = parse_tables(text)
            write_csv(
                name,
                [
                    part
                    for row in rows
                    for part in (tidy(row) if {"cell", "peak MB"} <= row.keys() else [row])
                ],
            )
    if all((RESULTS / f"{name}.json").exists() for name in FAMILIES):
        write_csv("families", list_families())
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        names = {name for _, name, _ in BLOCK.findall(text)}
        tables = {name: TABLES[name](printed) for name in names}
        page.write_text(
            BLOCK.sub(lambda block, tables=tables: f"{block[1]}{tables[block[2]]}\n{block[3]}", text),
            encoding="utf-8",
        )
        print(f"wrote {len(names)} tables to {page.name}")


if __name__ == "__main__":
    main()
