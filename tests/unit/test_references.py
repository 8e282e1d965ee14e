"""Files that docs and comments name are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATH = re.compile(
    r"(?<![\w/.-])((?:tests|docs|benchmarks|examples|python|crates|fuzz)/[\w./-]+\.(?:py|rs|md|sh|json|ya?ml|toml|svg))\b"
)
# Rooms of the package, as comments and docs name them: `settings/kinds.py`.
ROOMS = sorted(
    path.name for path in (ROOT / "python" / "tokenmill").iterdir() if (path / "__init__.py").exists()
)
IN_PACKAGE = re.compile(rf"(?<![\w/.-])((?:{'|'.join(ROOMS)})/[\w/]+\.py)\b")


def test_every_page_of_the_docs_is_in_the_navigation():
    """A page that nobody put there would be built, and never found."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    listed = set(re.findall(r"[\w/-]+\.md", nav))
    there = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    missing = {page for page in there if not re.search(r"\.(ko|zh)\.md$", page)} - listed
    assert not missing, f"add {sorted(missing)} to the nav of mkdocs.yml, in the section where a reader looks"


def test_every_block_of_the_docs_says_what_it_is():
    """`python` and `sh` are run by tests/docs, `yaml` and `json` are read, `text` is shown."""
    unnamed = []
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        unnamed += [page.name for kind in fences[::2] if kind not in {"python", "sh", "yaml", "json", "text"}]
    assert not unnamed, f"{unnamed}: a block begins with ```python, ```sh, ```yaml, ```json or ```text"


def pages():
    yield from [*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile", ROOT / "mkdocs.yml"]
    for folder, kinds in {
        "docs": ("md",),
        "python": ("py", "pyi"),
        "crates": ("rs", "toml"),
        "tests": ("py",),
        "benchmarks": ("py",),
        "examples": ("py", "sh"),
    }.items():
        for kind in kinds:
            yield from (ROOT / folder).rglob(f"*.{kind}")


def found(name):
    """A path of the repository or, as Cargo has it, of the core; results are what benchmarks write."""
    homes = (ROOT, ROOT / "crates" / "core")
    return name.startswith("benchmarks/results/") or any((home / name).exists() for home in homes)


def test_every_file_that_is_named_exists():
    missing = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        missing += [(page, name) for name in PATH.findall(text) if not found(name)]
        if page.suffix != ".rs":
            package = ROOT / "python" / "tokenmill"
            missing += [(page, name) for name in IN_PACKAGE.findall(text) if not (package / name).exists()]
    listed = "\n".join(f"{page.relative_to(ROOT)}: {name}" for page, name in missing)
    assert not missing, listed
