"""The referee of the benchmarks: other output never counts, failures are told, memory and bars are what they say."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr(sys, "path", [*sys.path])
    import bars
    import contest

    return contest, bars


def cells(name):
    """Two cells of an encoder that is right, wrong, or breaks in the second."""
    yield "one", lambda: [[1, 2], [3]], 1.0
    if name == "broken":
        raise ValueError("no more")
    held = np.ones(1_000_000)
    yield "two", lambda: (np.array([4, 5, 6 + (name == "wrong")]), [0, 1, 3]), held.nbytes / 8e6


def test_only_equal_output_counts_and_failures_are_told(benchmarks, capsys):
    contest, _ = benchmarks
    best = contest.take_turns(cells, ("tokenmill", "wrong", "broken"), 1)
    assert all(row["same"] for row in best["one"].values())
    assert best["two"]["tokenmill"]["same"]
    assert not best["two"]["wrong"]["same"]
    assert "broken" not in best["two"]
    told = capsys.readouterr().err
    assert "no more" in told
    assert "wrong gives something else" in told
    assert best["two"]["tokenmill"]["memory"] > best["one"]["tokenmill"]["memory"] + 7
    assert "other output" in contest.table(best, "cpu")


def test_a_digest_is_of_ids_and_of_where_documents_end(benchmarks):
    contest, _ = benchmarks
    lists = contest.digest([[1, 2], [], [70_000]])
    assert lists == contest.digest((np.array([1, 2, 70_000], np.uint32), [0, 2, 2, 3]))
    assert lists != contest.digest([[1], [2], [70_000]])
    assert contest.digest(["a", "b"]) != contest.digest(["ab", ""])


def test_a_bar_is_met_by_every_cell_or_not_met(benchmarks):
    _, bars = benchmarks
    good = bars.told("encode", "a peer", 1.5, None, {"a": 1.6, "b": 3.0})
    bad = bars.told("encode", "a peer", 1.5, None, {"a": 1.4, "b": 3.0})
    none = bars.told("encode", "a peer", 1.5, 2.0, {})
    assert good["met"]
    assert bad["below"] == ["a"]
    lines = bars.table([good, bad, none]).splitlines()
    assert [line.rsplit("| ", 1)[1] for line in lines[2:]] == ["met |", "not met |", "not run |"]
