"""Progress: what it counts, and how often it speaks."""

import logging
import re
from contextlib import suppress

import pytest

from tokenmill.pipeline.recorder import Progress


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
    with Progress("Tokenizing", total=4_000_000, clock=clock) as progress:
        for _ in range(80):
            clock.now += 1
            progress.advance(25_000, documents=10, tokens=5_000)
    assert len(told.messages) == 2
    assert told.messages[0].startswith(
        "Tokenizing: 19 %, 02:10 left, 25.0 kB/s, documents 300 (10/s), tokens 150.0 k (5.0 k/s)"
    )


@pytest.mark.parametrize(("rank", "show"), [("1", True), ("0", False)])
def test_ranks_above_0_and_show_false_say_nothing(told, monkeypatch, rank, show):
    monkeypatch.setenv("RANK", rank)
    clock = Clock()
    with Progress("x", total=10, show=show, clock=clock) as progress:
        clock.now = 60
        progress.advance(10)
    assert progress.done == 10
    assert told.messages == []


def test_resumed_work_is_done_but_is_not_speed(told):
    clock = Clock()
    progress = Progress("x", total=200, unit="units", resumed=80, clock=clock)
    clock.now = 40
    progress.advance(40)
    assert told.messages[0].startswith("x: 60 %, 01:20 left, 1 units/s")


def test_what_has_ended_well_is_whole(monkeypatch, capsys):
    """Text is less than the file that holds it: a bar that stands at 92 % looks like a job that was cut."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    clock = Clock()
    with Progress("Counting", total=100, clock=clock) as progress:
        clock.now = 1
        progress.advance(92)
    last = capsys.readouterr().err.splitlines()[-2:]
    assert "100 %" in "".join(last)
    assert "00:00 left" in "".join(last)
    assert progress.done == 92


@pytest.mark.parametrize(
    ("columns", "said", "left_out"),
    [
        (120, ["40 %", "left", "12.0 MB/s", "documents 3.4 k", "tokens 1.2 M"], []),
        (80, ["40 %", "left", "12.0 MB/s", "documents"], ["memory"]),
        (50, ["40 %", "left"], ["tokens", "memory"]),
    ],
)
def test_a_bar_and_the_time_left_at_every_width(columns, said, left_out, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    clock = Clock()
    progress = Progress("Tokenizing", total=300_000_000, clock=clock)
    with suppress(KeyboardInterrupt), progress:
        clock.now = 10
        progress.advance(120_000_000, documents=3_400, tokens=1_200_000)
        raise KeyboardInterrupt
    frames = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err).replace("\r", "\n").split("\n")
    last = [frame for frame in frames if frame.strip()][-1]
    assert len(last.rstrip()) <= columns
    assert len(re.findall(r"[━╸╺]", last)) == columns // 8
    assert all(word in last for word in said), last
    assert not any(word in last for word in left_out), last
