"""Runs the torch tests in an interpreter that has torch, where this one has none, and says so where none is found."""

import subprocess
from pathlib import Path

import pytest

from torch_environment import ROOT, WHY_NOT, environ, torch_python

INNER = [Path(__file__).parent / "test_torch_adapters.py"]


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
