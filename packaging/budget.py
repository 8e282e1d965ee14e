"""Print the lines of each part and its ceiling, and fail above one. Ceilings only fall."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "python/tokenmill"
# Lines of Python per package; the rest of the package is its top level.
CEILINGS = {
    "cli": 1643,
    "settings": 1123,
    "tokenizer": 3842,
    "training": 817,
    "vocab": 1794,
    "chat": 1604,
    "sources": 2573,
    "datasets": 5528,
    "pipeline": 4198,
    "report": 1600,
    "web": 465,
    "compat": 542,
    "base": 859,
}
TOTALS = {"Python": 26_837, "Python files": 155, "Rust": 23_719, "tests": 22_600}


def list_files(pattern: str) -> list[Path]:
    """Return the tracked files that match a git pattern."""
    command = ["git", "ls-files", "--", pattern]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def count_lines(files: list[Path]) -> int:
    """Return the number of lines of all files."""
    return sum(path.read_bytes().count(b"\n") for path in files)


def main() -> int:
    """Print the table and return 1 if a ceiling is exceeded."""
    python = list_files(f"{PACKAGE}/*.py")
    rows = []
    for name, ceiling in CEILINGS.items():
        files = [path for path in python if path.is_relative_to(ROOT / PACKAGE / name)]
        rows.append((name, count_lines(files), ceiling))
    tests, rust = list_files("tests/*.py"), list_files("crates/*.rs")
    found = (count_lines(python), len(python), count_lines(rust), count_lines(tests))
    rows += [(name, count, ceiling) for (name, ceiling), count in zip(TOTALS.items(), found, strict=True)]
    for name, count, ceiling in rows:
        print(f"{name:14}{count:9,} of {ceiling:7,}{'  too many' if count > ceiling else ''}")
    return int(any(count > ceiling for _, count, ceiling in rows))


if __name__ == "__main__":
    sys.exit(main())
