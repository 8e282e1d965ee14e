"""The reading benchmark runs, and 10 GB open in a moment even on a busy machine."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "read.py"


def test_opening_costs_nothing():
    command = [sys.executable, SCRIPT, "--json", "--rows", "500", "--tokens", "2000000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    found = json.loads(done.stdout)
    assert found["open"]["bytes"] > 9.9e9
    assert found["open"]["seconds"] < 0.5
    assert found["rows_per_second"]["tokenmill"] > 5 * found["rows_per_second"].get(
        "datasets.load_from_disk", 0
    )
