"""ARCHITECTURE.md says where things are: its walks name functions that exist, its table no more files than it promises."""

import re
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from tokenmill.cli import cli

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "tokenmill"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
# `room/module.function` or `room/module.Class.method`, with a slash.
STEP = re.compile(r"`([a-z_]+(?:/[a-z_]+)+)\.([A-Za-z_.]+)`")
WALKS = ("One document through `prepare`", "One document through `train`")
# The most files that a change may touch, as the table's rows are called.
MOST = {
    "a pre-tokenizer family": 3,
    "an output format": 1,
    "a column of rows": 1,
    "a setting or flag of `prepare` or `train`": 1,
    "a compression": 1,
    "an executor": 2,
    "a tie rule of training": 3,
}


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """Every function of the package, as `room/module.name`, that a small `train` and `prepare` call."""
    root, found = tmp_path_factory.mktemp("walk"), set()

    def note(frame, event, _):
        home = Path(frame.f_code.co_filename)
        if event == "call" and home.is_relative_to(PACKAGE):
            found.add(f"{home.relative_to(PACKAGE).with_suffix('').as_posix()}.{frame.f_code.co_qualname}")

    (root / "texts.jsonl").write_text('{"text": "low lower lowest"}\n' * 40, encoding="utf-8")
    train = ["train", str(root / "texts.jsonl"), "--vocab-size", "270", "--output", str(root / "tok")]
    rest = ["--tokenizer", str(root / "tok"), "--output", str(root / "out")]
    for words in (train, ["prepare", str(root / "texts.jsonl"), *rest]):
        before = sys.getprofile()
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            cli.main(args=words, prog_name="tokenmill", standalone_mode=False)
        finally:
            sys.setprofile(before)
            threading.setprofile(None)
    return found


def test_walks_are_walked_and_change_rooms_as_often_as_said(called):
    said = re.search(r"changes rooms (\d+) times, the next (\d+) times", TEXT)
    for title, changes in zip(WALKS, said.groups(), strict=True):
        steps = STEP.findall(SECTIONS[title])
        missing = [f"{path}.{name}" for path, name in steps if f"{path}.{name}" not in called]
        assert not missing, f"nothing calls {missing}"
        rooms = [path.split("/")[0] for path, _ in steps]
        assert sum(here != there for here, there in pairwise(rooms)) == int(changes) <= 45 // 2


@pytest.mark.parametrize(("change", "most"), MOST.items())
def test_a_change_touches_few_files(change, most):
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", SECTIONS["Where do I change…"], re.MULTILINE))
    files = re.findall(r"`((?:python|crates)/[^`]+)`", rows[change])
    assert 1 <= len(files) <= most
    assert len({path.split("/")[0] for path in files}) == 1 or change == "a tie rule of training"
    assert all((ROOT / path).exists() for path in files)
