"""Workflows call make targets that are there; version, addresses and forms agree with each other."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
TARGETS = set(
    re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


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


def test_all_that_was_asked_for_is_run():
    jobs = {path.stem: read(path)["jobs"] for path in WORKFLOWS}
    run = {name: {command.split()[1] for job in all_of.values() for command in commands(job)} for name, all_of in jobs.items()}  # fmt: skip
    assert {"test", "test-oldest"} <= run["test"]
    assert {"lint", "workflows", "other-systems"} <= run["lint"]
    assert {"miri", "asan", "fuzz", "campaign"} <= run["deep"]
    assert {"wheels", "release-check", "try-wheel", "try-sdist"} <= run["release"]
    systems = jobs["test"]["test"]["strategy"]["matrix"]["include"]
    assert {row["os"].split("-")[0] for row in systems} == {"ubuntu", "macos", "windows"}
    assert any("arm" in row["os"] for row in systems)
    assert {row["python"] for row in systems} == {"3.11", "3.14"}
    publish = jobs["release"]["publish"]
    assert publish["permissions"]["id-token"] == "write", "trusted publishing asks for a token"
    assert not any("password" in str(step) for step in publish["steps"])


def test_python_versions_agree():
    named = {line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert named == {"3.11", "3.12", "3.13", "3.14"}
    assert PROJECT["requires-python"] == ">=3.11"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_ask_for_something(path):
    form = read(path)
    assert form["name"]
    assert form["description"]
    assert any(part.get("validations", {}).get("required") for part in form["body"])
    ids = [part["id"] for part in form["body"]]
    assert len(set(ids)) == len(ids)


def test_the_version_is_told_everywhere(release):
    version = release.read_version()
    assert release.find_faults(version) == []
    assert release.find_faults("9.9.9") != []
    assert read(ROOT / "CITATION.cff")["cff-version"] == "1.2.0"
    assert "### " in release.read_notes(version)


def test_one_address_everywhere():
    home = PROJECT["urls"]["Homepage"]
    pages = [*ROOT.glob("*.md"), ROOT / "CITATION.cff", ROOT / "mkdocs.yml", *GITHUB.rglob("*.yml")]
    named = {
        (path.name, address)
        for path in pages if path.exists()
        for address in re.findall(r"https://github\.com/[\w-]+/tokenmill\b", path.read_text(encoding="utf-8"))
    }  # fmt: skip
    assert named
    assert {address for _, address in named} == {home}


def test_the_toolchain_file_fetches_no_other_rust():
    """A channel would make rustup download one where another stable Rust is at hand."""
    toolchain = tomllib.loads((ROOT / "rust-toolchain.toml").read_text(encoding="utf-8"))["toolchain"]
    assert "channel" not in toolchain
