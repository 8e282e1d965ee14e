"""The doctor tells a good set-up from a bad one, and its JSON keeps to its schema."""

import json
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
from click.testing import CliRunner

from small_tokenizers import write_bpe, write_word_piece
from tokenmill.base.machine import GB, Cores, Machine, Memory
from tokenmill.cli.plan import doctor as command
from tokenmill.report import doctor
from tokenmill.report.doctor import Report, examine

ROOT = Path(__file__).parents[3]
GOOD = Machine(Cores(8, 8, 8, None, 1, "8 on this host"), Memory(60 * GB, "free on this host"))


def by_name(report):
    return {check.name: check for check in report.checks}


def test_a_good_set_up_has_no_problem(tmp_path):
    report = examine(output=str(tmp_path / "out"), environ={}, machine=GOOD)
    assert report.exit_code == 0
    assert {check.name for check in report.checks} >= {
        "cores",
        "memory",
        "free space",
        "locks",
        "environment",
    }
    assert all(check.meaning and check.found for check in report.checks)
    assert list(tmp_path.iterdir()) == []


def test_every_line_that_is_not_ok_says_what_fixes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000, total=1 << 30))
    bad = Machine(Cores(2, 64, 64, 2.0, 1, "64 on this host, 2 by cgroup quota"), Memory(GB // 10, "left"))
    environ = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "9", "TOKENMILL_NUMPROC": "3"}
    report = examine(output=str(tmp_path), environ=environ, machine=bad)
    found = by_name(report)
    assert report.exit_code == 1
    assert found["free space"].status == "problem"
    assert found["memory"].status == "problem"
    assert found["cores"].status == "warning"
    assert any("unset TOKENIZERS_PARALLELISM" in (check.fix or "") for check in report.checks)
    assert all(check.fix for check in report.checks if check.status != "ok")


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("s3://bucket/data", "obstore", "s3"),
        ("gcs://bucket/data", "obstore", "s3"),
        ("hf://datasets/a/b", "huggingface_hub", "hf"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(url, package, extra):
    data, output = ([url, "local.jsonl"], url) if package == "obstore" else ([url], None)
    assert list(doctor.check_extras(data, output)) == []
    # A module that is None in sys.modules cannot be imported: what a machine without the package sees.
    code = f"""
import json, sys
sys.modules[{package!r}] = None
from tokenmill.report.doctor import check_extras
print(json.dumps([(check.status, check.fix) for check in check_extras({data!r}, {output!r})]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = ["problem", f"pip install 'tokenmill[{extra}]'"]
    assert json.loads(ran.stdout) == [expected] * (1 + (output is not None))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(need.startswith(package.replace("_", "-")) for need in extras[extra])


def test_urls_that_nothing_opens():
    (found,) = doctor.check_extras(["nowhere://x"])
    assert "Protocol not known" in found.found
    (found,) = doctor.check_extras([], "hf://datasets/a/b")
    assert "a dataset cannot be stored there" in found.found


@pytest.mark.parametrize("output", ["file", "file/below"])
def test_a_file_where_the_output_should_go_is_a_problem(tmp_path, output):
    (tmp_path / "file").write_text("mine")
    (found,) = doctor.check_output(tmp_path / output)
    assert (found.status, found.found) == ("problem", f"{tmp_path / 'file'} is a file")


def test_leftovers_of_dead_runs(tmp_path):
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    dead, host = int(gone.stdout), socket.gethostname()
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / f".tmp-{host}-{dead}-ab12-x.bin").write_bytes(b"1234")
    (tmp_path / f".tmp-{host}-{os.getpid()}-ab12-y.bin").write_bytes(b"1")
    (tmp_path / "progress.json").write_text(json.dumps({"state": "running", "pid": dead, "host": host}))
    *_, check = doctor.check_output(tmp_path)
    assert check.status == "warning"
    assert check.found == f"1 unfinished files (4 B), a run of process {dead} that died"
    (tmp_path / "progress.json").write_text(
        json.dumps({"state": "running", "pid": os.getpid(), "host": host})
    )
    (tmp_path / "shards" / f".tmp-{host}-{dead}-ab12-x.bin").unlink()
    *_, check = doctor.check_output(tmp_path)
    assert check.status == "ok"


def test_json_keeps_to_its_schema(tmp_path):
    run = CliRunner()
    schema = json.loads(run.invoke(command, ["--schema"]).stdout)
    good = run.invoke(command, ["--output", str(tmp_path), "--json"])
    bad = run.invoke(command, ["--output", str(tmp_path), "--tokenizer", str(tmp_path / "none"), "--json"])
    for result in (good, bad):
        jsonschema.validate(json.loads(result.stdout), schema)
        assert Report(**json.loads(result.stdout)).exit_code == result.exit_code
    assert bad.exit_code == 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"version": 1, "status": "fine", "checks": []}, schema)


def test_words_for_people(tmp_path):
    told = CliRunner().invoke(command, ["--output", str(tmp_path), "--tokenizer", str(tmp_path / "none")])
    assert told.exit_code == 1
    assert "problem  tokenizer" in told.stdout
    assert "fix: check the path" in told.stdout
    assert told.stdout.rstrip().endswith(("problem", "problems"))


def test_a_good_tokenizer_on_the_users_own_data(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "the document"}\n' * 30)
    tokenizer = str(write_bpe(tmp_path / "bpe"))
    report = examine(tokenizer, (str(tmp_path / "a.jsonl"),), str(tmp_path / "out"), environ={}, machine=GOOD)
    found = by_name(report)
    assert report.exit_code == 0
    assert "native" in found["tokenizer"].found
    assert found["parity"].found == "same ids on 30 of your documents"


def test_a_bad_set_up_in_all_its_parts(tmp_path, monkeypatch):
    """Slow tokenizer, parallelism off, full disk, missing extra: each is named, and the exit code tells."""
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    transformers.ByT5Tokenizer().save_pretrained(tmp_path / "byt5")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=0, total=1 << 30))
    environ = {"TOKENIZERS_PARALLELISM": "false"}
    report = examine(str(tmp_path / "byt5"), (), str(tmp_path / "out"), environ=environ, machine=GOOD)
    problems = {check.name for check in report.checks if check.status == "problem"}
    assert problems == {"tokenizer", "free space", "environment"}
    assert "tokenmill train" in by_name(report)["tokenizer"].fix
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    missing = examine(str(write_word_piece(tmp_path / "wp")), (), str(tmp_path), environ={}, machine=GOOD)
    assert by_name(missing)["extras"].fix == "pip install 'tokenmill[hf]'"
    assert missing.exit_code == 1


@pytest.mark.parametrize("name", ["OMP_PROC_BIND", "OMP_PLACES"])
def test_threads_that_are_bound_to_cores_under_several_ranks(tmp_path, name):
    ranks = Machine(Cores(4, 8, 8, None, 2, "divided among 2 ranks"), GOOD.memory)
    for machine, status in ((GOOD, "ok"), (ranks, "warning")):
        report = examine(output=str(tmp_path), environ={name: "cores"}, machine=machine)
        found = [check for check in report.checks if check.name == "environment"]
        assert found[0].status == status
