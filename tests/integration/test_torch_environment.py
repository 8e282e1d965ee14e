"""Runs the torch tests in an interpreter that has torch, if this one has none, and skip with a reason if none is found."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from torch_environment import ROOT, WHY_NOT, environ, run_ranks, torch_python

INNER = [
    Path(__file__).parent / "test_torch_adapters.py",
    ROOT / "tests" / "unit" / "test_compat_transformers.py",
]


@pytest.mark.torch
def test_the_torch_tests_where_torch_is():
    python = torch_python()
    if python is None:
        pytest.skip(WHY_NOT)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, INNER)]
    done = subprocess.run(
        command, cwd=ROOT, env=environ(), capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.torch
def test_the_wait_outlives_a_collective_timeout(tmp_path):
    python = torch_python()
    if python is None:
        pytest.skip(WHY_NOT)
    process = Path(__file__).parent / "collective_process.py"
    with ThreadPoolExecutor() as both:
        ways = both.map(lambda how: run_ranks(python, [process, tmp_path / how, how], 2), ("wait", "barrier"))
        waited, barrier = ways
    assert [(code, out) for code, out, _ in waited] == [(0, "read 100\n")] * 2, waited
    assert barrier[1][0] != 0, "a barrier of two seconds waited for five: this test proves nothing"
    assert "imed out" in barrier[1][2], barrier[1][2]
