"""The doctor tells a good set-up from a bad one."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from small_tokenizers import write_bpe, write_word_piece
from tokenmill.base.machine import GB, Cores, Machine, Memory
from tokenmill.cli.plan import doctor as command
from tokenmill.report import doctor
from tokenmill.report.doctor import examine

ROOT = Path(__file__).parents[3]
GOOD = Machine(Cores(8, 8, 8, None, 1, "8 on this host"), Memory(60 * GB, "free on this host"))


def by_name(checks):
    return {check.name: check for check in checks}


def list_problems(checks):
    return {check.name for check in checks if check.status == "problem"}


def test_a_good_set_up_has_no_problem(tmp_path):
    checks = examine(output=str(tmp_path / "out"), environ={}, machine=GOOD)
    assert not list_problems(checks)
    assert {"cores", "memory", "free space", "environment"} <= by_name(checks).keys()
    assert list(tmp_path.iterdir()) == []


def test_every_line_that_is_not_ok_says_what_fixes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000, total=1 << 30))
    bad = Machine(Cores(2, 64, 64, 2.0, 1, "64 on this host, 2 by cgroup quota"), Memory(GB // 10, "left"))
    environ = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "9", "TOKENMILL_NUMPROC": "3"}
    checks = examine(output=str(tmp_path), environ=environ, machine=bad)
    found = by_name(checks)
    assert found["free space"].status == "problem"
    assert found["memory"].status == "problem"
    assert found["cores"].status == "warning"
    assert any("unset TOKENIZERS_PARALLELISM" in (check.fix or "") for check in checks)
    assert all(check.fix for check in checks if check.status != "ok")


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("s3://bucket/data", "obstore", "s3"),
        ("gcs://bucket/data", "obstore", "s3"),
        ("hf://datasets/a/b", "huggingface_hub", "hf"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(url, package, extra):
    output = url if package == "obstore" else None
    assert {check.status for check in doctor.check_data((url,))} == {"ok"}
    # A module that is None in sys.modules cannot be imported: what a machine without the package sees.
    code = f"""
import json, sys
sys.modules[{package!r}] = None
from tokenmill.report.doctor import examine
print(json.dumps([check.fix for check in examine(None, ({url!r},), {output!r}) if check.status == "problem"]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == [f"pip install 'tokenmill[{extra}]'"] * (1 + (output is not None))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(need.startswith(package.replace("_", "-")) for need in extras[extra])


def test_urls_that_nothing_opens():
    found = by_name(examine(None, ("nowhere://x",), "hf://datasets/a/b", {}, GOOD))
    assert "Protocol not known" in found["data"].found
    assert "a dataset cannot be stored there" in found["output"].found
    assert "no such file" in by_name(examine(None, ("none.jsonl",), None, {}, GOOD))["data"].found


def test_the_command_prints_the_checks_for_people_and_as_json(tmp_path):
    run, missing = CliRunner(), ["--output", str(tmp_path), "--tokenizer", str(tmp_path / "none")]
    told = run.invoke(command, missing)
    assert told.exit_code == 1
    assert "problem  tokenizer" in told.stdout
    assert "fix: correct the path" in told.stdout
    assert told.stdout.rstrip().endswith(("problem", "problems"))
    found = run.invoke(command, [*missing, "--json"])
    data = json.loads(found.stdout)
    assert (found.exit_code, data["version"], data["status"]) == (1, 1, "problem")
    assert set(data["checks"][0]) == {"name", "status", "found", "fix"}


def test_a_good_tokenizer_on_the_users_own_data(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "the document"}\n' * 30)
    tokenizer = str(write_bpe(tmp_path / "bpe"))
    checks = examine(tokenizer, (str(tmp_path / "a.jsonl"),), str(tmp_path / "out"), environ={}, machine=GOOD)
    found = by_name(checks)
    assert not list_problems(checks)
    assert "native" in found["tokenizer"].found
    assert found["parity"].found == "same ids on 30 of your documents"


def test_a_bad_set_up_in_all_its_parts(tmp_path, monkeypatch):
    """Slow tokenizer, parallelism off, full disk, missing extra: each is named, and the exit code tells."""
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    transformers.ByT5Tokenizer().save_pretrained(tmp_path / "byt5")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=0, total=1 << 30))
    environ = {"TOKENIZERS_PARALLELISM": "false"}
    checks = examine(str(tmp_path / "byt5"), (), str(tmp_path / "out"), environ=environ, machine=GOOD)
    assert list_problems(checks) == {"tokenizer", "free space", "environment"}
    assert "tokenmill train" in by_name(checks)["tokenizer"].fix
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    missing = examine(str(write_word_piece(tmp_path / "wp")), (), str(tmp_path), environ={}, machine=GOOD)
    assert by_name(missing)["tokenizer"].fix == "pip install 'tokenmill[hf]'"
