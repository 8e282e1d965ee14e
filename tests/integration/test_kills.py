"""SIGKILL at random moments: nothing is lost, doubled or torn, and the end is the same to the byte."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_determinism import write_corpus


def kill_loop(kills, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    write_corpus(corpus / "a.jsonl", 800, 5)
    write_corpus(corpus / "b.jsonl", 300, 6)
    script = Path(__file__).with_name("kill_loop.py")
    done = subprocess.run(
        [sys.executable, str(script), str(kills), str(corpus), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) | {"said": done.stderr}


def check(result, kills):
    assert result["killed"] == kills
    assert result["wrong"] == 0, result["said"]
    assert result["problems"] == []
    assert result["leftovers"] == []
    # A kill right after the manifest was published may leave these, and nothing else, beside the content.
    assert set(result["left"]) <= {".leader.lock", ".leader.alive.json", ".progress.json", ".tmp"}, result


def test_a_few_kills(tmp_path):
    check(kill_loop(12, tmp_path), 12)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_hundred_kills(tmp_path):
    check(kill_loop(200, tmp_path), 200)
