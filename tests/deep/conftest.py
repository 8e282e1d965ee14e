"""One campaign for all tests of this folder, and its table at the end."""

import json
import os
from pathlib import Path

import pytest
from harness import Campaign, Tally, format_table, quick_directory

TALLIES: dict[str, Tally] = {}


@pytest.fixture(scope="session")
def campaign():
    with quick_directory() as root:
        try:
            made = Campaign(root)
        except FileNotFoundError as error:
            pytest.skip(str(error))
        yield made
        made.close()


@pytest.fixture
def tally():
    """`tally("kills")` -> the figures of that line of the table."""
    return lambda name: TALLIES.setdefault(name, Tally(name))


def pytest_terminal_summary(terminalreporter):
    if not TALLIES:
        return
    tallies = list(TALLIES.values())
    terminalreporter.section("the campaign")
    for tally in tallies:
        for failure in tally.failures[:20]:
            terminalreporter.write_line(f"{tally.name}: {failure}")
    terminalreporter.write_line(format_table(tallies))
    if os.environ.get("DEEP_FIGURES"):
        # A Counter is made of pairs to `asdict`, so the counts go as they are.
        figures = [vars(tally) for tally in tallies]
        Path(os.environ["DEEP_FIGURES"]).write_text(json.dumps(figures, indent=1))
