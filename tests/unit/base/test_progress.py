"""Progress: what it counts, and how often it speaks."""

import json
import logging
import re
from contextlib import suppress

import pytest

from tokenmill.pipeline.output import Progress


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def told(caplog):
    logger = logging.getLogger("tokenmill")
    logger.propagate = True
    caplog.set_level(logging.INFO, "tokenmill")
    return caplog


def test_a_line_every_30_seconds_off_a_terminal(told):
    clock = Clock()
    with Progress(clock=clock) as progress, progress.stage("Tokenizing", 4_000_000):
        for _ in range(80):
            clock.now += 1
            progress.count(bytes=25_000, documents=10, tokens=5_000)
    assert len(told.messages) == 2
    assert told.messages[0] == (
        "Tokenizing: 19 %, 02:10 left, 25.0 kB/s, documents 300 (10/s), tokens 150.0 k (5.0 k/s)"
    )


@pytest.mark.parametrize(("rank", "show"), [("1", True), ("0", False)])
def test_ranks_above_0_and_show_false_say_nothing(told, monkeypatch, rank, show):
    monkeypatch.setenv("RANK", rank)
    clock = Clock()
    with Progress(show=show, clock=clock) as progress, progress.stage("x", 10):
        clock.now = 60
        progress.count(bytes=10)
    assert progress.state["bytes"] == 10
    assert told.messages == []


def test_resumed_work_is_done_but_is_not_speed(told):
    clock = Clock()
    with Progress(clock=clock, units_done=80) as progress, progress.stage("x", 200, "units"):
        clock.now = 40
        progress.count(units_done=40)
    assert told.messages[0].startswith("x: 60 %, 01:20 left, 1 units/s")


def test_the_file_is_replaced_at_most_every_second(tmp_path):
    clock = Clock()
    read = lambda: json.loads((tmp_path / "progress.json").read_text())  # noqa: E731
    with suppress(ValueError), Progress(tmp_path, show=False, clock=clock) as progress:
        progress.count(documents=1)
        assert read()["documents"] == 0
        clock.now = 1.5
        progress.count(documents=1)
        assert read() | {"documents": 2, "state": "running"} == read()
        raise ValueError("the cause")
    assert read() | {"state": "failed", "error": "the cause"} == read()


@pytest.mark.parametrize(
    ("columns", "said"), [(120, ["92 %", "left", "9.2 MB/s", "documents 3.4 k"]), (50, ["92 %", "left"])]
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_bar_and_the_time_left_at_every_width(columns, said, whole, monkeypatch, capsys):
    """Text is less than the file that holds it: a bar that stands at 92 % looks like a job that was cut."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    clock = Clock()
    progress = Progress(clock=clock)
    with suppress(KeyboardInterrupt), progress.stage("Tokenizing", 100_000_000):
        clock.now = 10
        progress.count(bytes=92_000_000, documents=3_400, tokens=1_200_000)
        if not whole:
            raise KeyboardInterrupt
    frames = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err).replace("\r", "\n").split("\n")
    last = [frame for frame in frames if frame.strip()][-1]
    assert len(last.rstrip()) <= columns
    assert all(word in last for word in ([*said[1:], "100 %"] if whole else said)), last
