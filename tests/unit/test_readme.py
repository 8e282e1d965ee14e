"""The README's snippets run as they stand, and its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def snippets(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_python_snippets_run(path, tmp_path):
    for snippet in snippets(path):
        done = subprocess.run(
            [sys.executable, "-c", snippet],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{path.name}:\n{snippet}\n{done.stderr}"


@pytest.mark.parametrize(
    "path", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name
)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\((?!http|#)([^)#]+)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if not (path.parent / link).exists()]
    assert not missing, f"{path.name} links to {missing}"


def test_the_readme_asserts_something():
    assert any("assert" in snippet for snippet in snippets(ROOT / "README.md"))
