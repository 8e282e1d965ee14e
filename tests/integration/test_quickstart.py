"""The first command that anybody runs."""

import subprocess
import sys

import pytest

import tokenmill
from tokenmill.cli import main


def test_quickstart_twice(tmp_path, capsys):
    for _ in range(2):
        main(["quickstart", "--output", str(tmp_path / "first")])
        assert "600 documents" in capsys.readouterr().out
    assert len(tokenmill.open(tmp_path / "first" / "dataset")) == 600
    page = (tmp_path / "first" / "dataset" / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!")


@pytest.fixture
def script(tmp_path):
    """The command as pip installs it, in a folder that a shell does not search."""
    script = tmp_path / "an env" / "bin" / "tokenmill"
    script.parent.mkdir(parents=True)
    code = "import sys\nfrom tokenmill.cli import main\nsys.exit(main())\n"
    script.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    script.chmod(0o755)
    return script


def test_the_commands_at_the_end_work_as_printed(script, tmp_path):
    def run(command):
        options = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120}
        return subprocess.run(command, shell=True, check=False, env={"PATH": str(tmp_path)}, **options)

    done = run(f"'{script}' quickstart --output 'a place'")
    assert done.returncode == 0, done.stderr
    report, page = done.stdout.splitlines()[-2:]
    report = report.partition("The report:")[2].partition("     (")[0].strip()
    page = page.partition("The playground:")[2].strip()
    # The page would stay, and a browser is not for a test: all else runs as printed.
    for command in (report.removesuffix(" --open"), page.replace("--open", "--help")):
        done = run(command)
        assert done.returncode == 0, done.stderr
