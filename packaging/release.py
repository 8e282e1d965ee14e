"""Make a release: `check` that its version is the same everywhere, print its `notes`, make its `tag`.

Cargo.toml owns the version. The changelog, CITATION.cff and the tag follow it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def read_version() -> str:
    """Return the version that Cargo.toml gives to all crates and, through maturin, to the package."""
    version: str = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    return version


def read_notes(version: str) -> str:
    """Return the notes below the heading of a version in CHANGELOG.md, or an empty string."""
    found = _find_heading(version)
    return found["notes"].strip() if found else ""


def _find_heading(version: str) -> re.Match[str] | None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = rf"^## \[{re.escape(version)}\] - (?P<date>\d{{4}}-\d\d-\d\d|Unreleased)\n"
    return re.search(heading + r"(?P<notes>.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)


def find_faults(version: str) -> list[str]:
    """Return the files in which the version is missing or different."""
    faults = []
    if not read_notes(version):
        faults.append(f"CHANGELOG.md has no notes under '## [{version}] - DATE'")
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8"):
        faults.append(f"CITATION.cff does not have version {version}")
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    if f'name = "tokenmill-core"\nversion = "{version}"' not in lock:
        faults.append(f"Cargo.lock does not have version {version}: run cargo check and commit it")
    return faults


def find_tag_fault(version: str) -> str | None:
    """Return why the tag cannot be made: it exists elsewhere, or this commit has another version's tag."""
    here = _git("rev-parse", "HEAD")
    there = _git("rev-parse", "--verify", "--quiet", f"v{version}^{{commit}}")
    if there and there != here:
        return f"v{version} is already the tag of commit {there[:10]}: raise the version in Cargo.toml"
    others = [tag for tag in _git("tag", "--points-at", "HEAD").split() if tag != f"v{version}"]
    return f"this commit is tagged {', '.join(others)}, but Cargo.toml says {version}" if others else None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    return done.stdout.strip()


def check(version: str) -> int:
    """Print why this commit cannot be a release. Return 0 if it can."""
    faults = find_faults(version)
    if (heading := _find_heading(version)) and heading["date"] == "Unreleased":
        faults.append(f"CHANGELOG.md calls {version} unreleased: write the date of the release there")
    tag = find_tag_fault(version)
    for fault in [*faults, *([tag] if tag else [])]:
        print(f"not ready: {fault}", file=sys.stderr)
    if not faults and not tag:
        print(f"{version} is ready: changelog, citation, lock file and tag agree")
    return int(bool(faults or tag))


def tag(version: str) -> int:
    """Make the tag, if it does not exist, and the release page with the notes and all files of dist/."""
    files = sorted(str(path) for path in (ROOT / "dist").iterdir())
    command = ["gh", "release", "create", f"v{version}", *files, "--title", f"Tokenmill {version}"]
    command += ["--notes", read_notes(version), "--target", _git("rev-parse", "HEAD")]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603


def main(arguments: list[str]) -> int:
    """Run one command."""
    version = read_version()
    match arguments:
        case ["check"]:
            return check(version)
        case ["tag"]:
            return tag(version)
        case ["notes"]:
            print(read_notes(version))
            return 0
    print("usage: python packaging/release.py check | notes | tag", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
