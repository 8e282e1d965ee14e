"""How fast memory is here: a copy of arrays far larger than every cache, as STREAM does it, one thread.

`python benchmarks/bandwidth.py` prints GB read and written a second, and how far the encoder is from it: each byte of
text is read once, and each id written once. Reads `benchmarks/results/encode.json` of the same run where it is there, and
writes `benchmarks/results/bandwidth.json`.
"""

import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import numpy as np  # noqa: E402

BYTES = 512 << 20
# Bytes of text that make one id of four bytes, about: so much is written for each byte read.
BYTES_PER_ID = 4.0


def copy_rate(turns=5):
    """Bytes read plus bytes written, a second, best of several."""
    source, target = np.ones(BYTES // 8), np.zeros(BYTES // 8)
    best = float("inf")
    for _ in range(turns):
        start = time.process_time()
        np.copyto(target, source)
        best = min(best, time.process_time() - start)
    return 2 * BYTES / best


def distances(rate, results):
    """{cell: times that memory alone would be faster}."""
    path = results / "encode.json"
    if not path.exists():
        return {}
    cells = json.loads(path.read_text())["best"]["tokenmill"]
    traffic = 1e6 * (1 + 4 / BYTES_PER_ID)
    return {cell: rate / (speed["cpu"] * traffic) for cell, speed in cells.items() if " flat " in cell}


def main():
    results = ROOT / "benchmarks" / "results"
    results.mkdir(exist_ok=True)
    rate = copy_rate()
    found = distances(rate, results)
    print(f"copying {BYTES >> 20} MiB: {rate / 1e9:.1f} GB/s read and written, one thread\n")
    if found:
        print("| cell | memory alone would be faster by |\n|---|---|")
        for cell, times in found.items():
            print(f"| {cell} | {times:.0f}x |")
    (results / "bandwidth.json").write_text(
        json.dumps({"bytes_per_second": rate, "distance": found}, indent=1)
    )


if __name__ == "__main__":
    main()
