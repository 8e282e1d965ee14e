"""The first command that anybody runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tokenmill
from tokenmill.cli import main


def test_quickstart_tells_what_it_made(tmp_path, capsys):
    main(["quickstart", "--output", str(tmp_path / "first"), "--json"])
    done = json.loads(capsys.readouterr().out)
    dataset = tokenmill.open(done["dataset"])
    assert (len(dataset), dataset.num_tokens) == (done["documents"], done["tokens"])
    assert Path(done["report"]).read_text(encoding="utf-8").startswith("<!")
    ids = dataset[0].tolist()
    assert done["first_document"] in tokenmill.Tokenizer.load(done["tokenizer"]).decode(ids)


def test_quickstart_for_people_and_again(tmp_path, capsys):
    for _ in range(2):
        main(["quickstart", "--output", str(tmp_path / "first")])
        assert "600 documents" in capsys.readouterr().out


@pytest.fixture
def script(tmp_path):
    """The command as pip installs it, in a folder that a shell does not search."""
    script = tmp_path / "an env" / "bin" / "tokenmill"
    script.parent.mkdir(parents=True)
    code = "import sys\nfrom tokenmill.cli import main\nsys.exit(main())\n"
    script.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    script.chmod(0o755)
    return script


@pytest.mark.parametrize("searched", [False, True])
def test_the_commands_at_the_end_work_as_printed(script, tmp_path, searched):
    environment = {"PATH": str(script.parent) if searched else str(tmp_path)}

    def run(command):
        options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": 120}
        return subprocess.run(command, shell=True, check=False, **options)

    own = "tokenmill" if searched else f"{sys.executable} -m tokenmill"
    done = run(f"'{script}' quickstart --output 'a place'")
    assert done.returncode == 0, done.stderr
    report, page = done.stdout.splitlines()[-2:]
    report = report.partition("The report:")[2].partition("     (")[0].strip()
    page = page.partition("The playground:")[2].strip()
    assert report == f"{own} dataset report 'a place/dataset' --open"
    assert page == f"{own} serve 'a place' --open"
    # The page would stay, and a browser is not for a test: all else runs as printed.
    for command in (report.removesuffix(" --open"), page.replace("--open", "--help")):
        done = run(command)
        assert done.returncode == 0, done.stderr


def test_a_missing_extra_is_installed_first(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    main(["quickstart", "--output", str(tmp_path / "first")])
    install, page = capsys.readouterr().out.splitlines()[-2:]
    assert install.endswith("pip install 'tokenmill[web]'")
    assert page.endswith(f"serve {tmp_path}/first --open")
