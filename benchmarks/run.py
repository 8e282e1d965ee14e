"""Run all benchmarks one after another, each against its peers; under 40 minutes on two cores.

`python benchmarks/run.py [--only encode,train] [--all] [--corpora DIR] [--charts docs/images]`

Each script compares outputs before it times anything, prints a Markdown table and writes JSON to
`benchmarks/results/`. What they print goes to `benchmarks/results/tables.md`; the last, `bars`, puts the ratios of all into one
table that says which bars are met; `charts` draws the encoding speeds. `publish.py` puts the tables into the pages. `--all` adds what has no peers: an hour more.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
# What to run, and with what.
TABLE = {
    "encode": ["--megabytes", "8", "--turns", "2"],
    "all_families": ["--megabytes", "2"],
    "cores": ["--large", "400", "--turns", "2"],
    "pieces": [],
    "words": [],
    "decode": [],
    "train": [
        "--cases",
        "en+ko+zh:128000",
        "en:32000",
        "--timeout",
        "60",
        "--output",
        f"{RESULTS}/train.json",
    ],
    "prepare": ["--names", "en", "--size", "1e9", "--repeat", "1", "--output", f"{RESULTS}/prepare.json"],
    "load": [],
    "fast": ["--turns", "3"],
    "start": [],
    "hotspots": ["--vocabularies", "gpt2,o200k", "--seconds", "1"],
}
MORE = {
    "parity": [],
    "linear": [],
    "memory": [],
    "read": [],
    "ray_overhead": [],
}
SUMS = {"bars": [], "charts": []}
# Hugging Face's tokenizers 1.0 takes the place of 0.23, so some scripts have an environment of their own.
ELSEWHERE = {"all_families": HERE.parent / ".venv-peers" / "bin" / "python"}
TAKES_CORPORA = {
    "encode",
    "all_families",
    "cores",
    "words",
    "decode",
    "fast",
    "hotspots",
    "train",
    "prepare",
    "ray_overhead",
}


def command(name, options):
    """How one script is called."""
    arguments = {**TABLE, **MORE, **SUMS}[name]
    if name == "charts":
        arguments = [options.charts]
    elif options.corpora and name in TAKES_CORPORA:
        arguments = [*arguments, "--corpora", options.corpora]
    elif options.corpora and name == "parity":
        arguments = [*arguments, options.corpora]
    return [str(ELSEWHERE.get(name, sys.executable)), str(HERE / f"{name}.py"), *arguments]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="which scripts, by name")
    parser.add_argument("--all", action="store_true", help="also what has no peers")
    parser.add_argument("--corpora", help="a folder of .jsonl.zst files")
    parser.add_argument("--charts", default=str(RESULTS), help="a folder for the charts")
    options = parser.parse_args()
    names = [*TABLE, *(MORE if options.all else ()), *SUMS]
    if options.only:
        names = options.only.split(",")
    RESULTS.mkdir(exist_ok=True)
    failed = []
    with (RESULTS / "tables.md").open("w") as tables:
        for name in names:
            started = time.monotonic()
            print(f"\n## {name}\n", flush=True)
            done = subprocess.run(command(name, options), stdout=subprocess.PIPE, text=True, check=False)
            print(done.stdout, flush=True)
            print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
            tables.write(f"## {name}\n\n{done.stdout}\n")
            failed += [name] if done.returncode else []
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
