"""Every benchmark, one after another, each beside its peers; the whole takes about an hour on two cores.

`python benchmarks/run.py [--only encode,train] [--corpora DIR]`

Each script compares outputs before it times anything, prints a Markdown table and writes JSON to
`benchmarks/results/`. This one writes what they print to `benchmarks/results/tables.md`; the last of them, `bars`, puts
the ratios of all into one table and one chart.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
# What to run, and with what; the order is that of docs/performance.md.
SCRIPTS = {
    "parity": [],
    "encode": [],
    "cores": [],
    "pieces": [],
    "words": [],
    "decode": [],
    "linear": [],
    "memory": [],
    "train": ["--output", str(RESULTS / "train.json")],
    "prepare": ["--output", str(RESULTS / "prepare.json")],
    "read": [],
    "start": [],
    "bandwidth": [],
    "hotspots": [],
    "plan": [],
    "settings": [],
    "ray_overhead": [],
    "scale_sim": [],
    "bars": [],
}
TAKES_CORPORA = {"encode", "cores", "words", "decode", "hotspots", "train", "prepare", "plan", "ray_overhead"}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(SCRIPTS), help="which scripts, by name")
    parser.add_argument("--corpora", help="a folder of .jsonl.zst files")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    failed = []
    with (RESULTS / "tables.md").open("w") as tables:
        for name in options.only.split(","):
            command = [sys.executable, str(HERE / f"{name}.py"), *SCRIPTS[name]]
            if options.corpora and name in TAKES_CORPORA:
                command += ["--corpora", options.corpora]
            if options.corpora and name == "parity":
                command.append(options.corpora)
            print(f"\n## {name}\n", flush=True)
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            print(done.stdout, flush=True)
            tables.write(f"## {name}\n\n{done.stdout}\n")
            failed += [name] if done.returncode else []
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
