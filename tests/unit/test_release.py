"""Workflows call make targets that are there; version, addresses and forms agree with each other."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TARGETS = set(
    re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / "packaging" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands(job):
    """Every command of a job, once for each value of a matrix that stands in it."""
    values = job.get("strategy", {}).get("matrix", {}).get("check", [""])
    for step in job["steps"]:
        if "run" in step:
            yield from (step["run"].replace("${{ matrix.check }}", value) for value in values)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_step_is_a_make_target_that_exists(path):
    for name, job in read(path)["jobs"].items():
        for command in commands(job):
            word, target, *_ = command.split()
            assert word == "make", (
                f"{name}: {command}: what CI does must be a make target, so that it runs anywhere"
            )
            assert target in TARGETS, f"{name}: make {target} is not in the Makefile"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_do_no_more_than_they_need(path):
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert "timeout-minutes" in job, f"{name} could hang for hours"
        for step in job["steps"]:
            assert re.match(r"(actions|pypa)/[\w-]+@\S+$", step.get("uses", "actions/x@v1")), step


def test_the_version_is_told_everywhere(release):
    version = release.read_version()
    assert release.find_faults(version) == []
    assert release.find_faults("9.9.9") != []
    assert read(ROOT / "CITATION.cff")["cff-version"] == "1.2.0"
    assert "### " in release.read_notes(version)
