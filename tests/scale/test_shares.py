"""Independent processes on shares of one plan come to the same bytes as one process."""

import json
import subprocess
import sys
from platform import node

import pytest

import tokenmill
from scale_options import flags
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.pipeline.commit import commit_directory
from tokenmill.pipeline.run import parse_unit_range


def start(corpus, output, unit_range):
    job = ["prepare", *flags(corpus, output), "--unit-range", unit_range]
    command = [sys.executable, "-m", "tokenmill", *job]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_four_processes_at_once_make_the_same_bytes(corpus, reference, tmp_path):
    processes = [start(corpus, tmp_path / "out", f"{number}/4") for number in range(4)]
    results = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, results
    # A commit that was killed, by a process that is gone, left this behind.
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = tmp_path / "out" / f".tmp-{node()}-{dead.pid}-00000000-report.html"
    left.touch()
    # The last one may have seen another's receipt missing for a moment; commit is for that.
    command = [sys.executable, "-m", "tokenmill", "dataset", "commit", str(tmp_path / "out"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["content_hash"] == reference.content_hash
    assert not left.exists()
    assert tokenmill.open(tmp_path / "out").content_hash == reference.content_hash


def test_a_share_alone_publishes_nothing_and_commit_names_what_is_missing(corpus, tmp_path):
    process = start(corpus, tmp_path / "out", "1/4")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "units done; the other parts" in out
    assert not (tmp_path / "out" / "manifest.json").exists()
    with pytest.raises(DatasetError, match="units are not done yet"):
        commit_directory(tmp_path / "out")


@pytest.mark.parametrize("text", ["", "1", "4/4", "-1/4", "a/b", "1/0", "1/4/2"])
def test_a_bad_range_says_what_is_expected(text):
    with pytest.raises(ConfigError, match="expected i/n"):
        parse_unit_range(text)


def test_commit_of_a_directory_without_a_plan(tmp_path):
    command = [sys.executable, "-m", "tokenmill", "dataset", "commit", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "has no plan.json" in done.stderr
