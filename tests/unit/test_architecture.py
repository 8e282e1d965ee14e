"""ARCHITECTURE.md says where things are: its walks name functions that exist, its table no more files than it promises."""

import ast
import re
from pathlib import Path

import pytest

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


def names(module):
    """Functions and classes of a module, and the methods of its classes as `Class.method`."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
            inner = node.body if isinstance(node, ast.ClassDef) else []
            yield from (f"{node.name}.{each.name}" for each in inner if isinstance(each, ast.FunctionDef))


def find(path):
    """The module or package that a walk calls `jobs/train` or, where its room is clear, `units/encode`."""
    for home in (PACKAGE, *(room for room in PACKAGE.iterdir() if room.is_dir())):
        if (home / f"{path}.py").is_file():
            return [home / f"{path}.py"]
        if (home / path / "__init__.py").is_file():
            return sorted((home / path).glob("*.py"))
    return []


@pytest.mark.parametrize("title", WALKS)
def test_every_function_of_a_walk_is_there(title):
    steps = STEP.findall(SECTIONS[title])
    assert len(steps) >= 6
    missing = [
        f"{path}.{name}" for path, name in steps if name not in {n for m in find(path) for n in names(m)}
    ]
    assert not missing, f"ARCHITECTURE.md names {missing}, which are not there"


@pytest.mark.parametrize(("change", "most"), MOST.items())
def test_a_change_touches_few_files(change, most):
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", SECTIONS["Where do I change…"], re.MULTILINE))
    files = re.findall(r"`((?:python|crates)/[^`]+)`", rows[change])
    assert 1 <= len(files) <= most
    assert len({path.split("/")[0] for path in files}) == 1 or change == "a tie rule of training"
    assert all((ROOT / path).exists() for path in files)
