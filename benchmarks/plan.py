"""How good `tokenmill plan` is: its estimate of each corpus, then the job itself.

`python benchmarks/plan.py [--corpora DIR] [--sample-megabytes 16]`

The sample is smaller than the corpora, so that there is something to estimate. Bars: 5 % for tokens and disk, 25 % for
time.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import corpora  # noqa: E402
import tokenmill  # noqa: E402
from tokenmill.pipeline.estimate import estimate  # noqa: E402


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=corpora.CORPORA)
    parser.add_argument("--sample-megabytes", type=float, default=16)
    options = parser.parse_args()
    scratch = ROOT / "benchmarks" / "results"
    scratch.mkdir(exist_ok=True)
    tokenizer = tokenmill.Tokenizer.load(corpora.vocabulary_files(scratch)["cl100k"])
    print("| corpus | tokens | off by | disk | off by | seconds | off by |\n|---|---|---|---|---|---|---|")
    rows = {}
    for name in corpora.NAMES:
        path = options.corpora / f"{name}.jsonl.zst"
        planned = estimate([str(path)], tokenizer, sample_bytes=int(options.sample_megabytes * 1e6))
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            dataset = tokenmill.prepare(
                inputs=[str(path)],
                tokenizer=tokenizer,
                output=f"{folder}/out",
                show_progress=False,
                verbose_level="ERROR",
                parity_check=False,
                report=False,
            )
            seconds = time.perf_counter() - started
            disk = sum(file.stat().st_size for file in Path(f"{folder}/out/shards").iterdir())
        off = {
            "tokens": planned["tokens"] / dataset.num_tokens - 1,
            "disk": planned["disk_bytes"] / disk - 1,
            "seconds": planned["seconds"] / seconds - 1,
        }
        rows[name] = off
        print(
            f"| {name} | {dataset.num_tokens:,} | {off['tokens']:+.2%} | {disk:,} | {off['disk']:+.2%} | {seconds:.2f} | {off['seconds']:+.1%} |",
            flush=True,
        )
    (scratch / "plan.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
