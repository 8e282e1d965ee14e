"""Install a wheel or the sdist into an empty environment, and do what the README says.

python packaging/try_wheel.py                   this machine's wheel in dist/: no Rust on the PATH, no extra
python packaging/try_wheel.py dist/*.tar.gz     the same, built there by Rust
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/tutorial.md")


def main(packages: list[str]) -> int:
    """Try each package in an environment of its own; 0 if all of them work."""
    found = [Path(package).resolve() for package in packages] or find_wheels()
    if not found:
        print("nothing to try in dist/: run make wheel or make wheels first", file=sys.stderr)
    return max(map(try_package, found), default=2)


def find_wheels() -> list[Path]:
    """Return the wheels in dist/ for this machine's architecture."""
    ending = f"_{platform.machine().lower()}.whl"
    return sorted(path for path in (ROOT / "dist").glob("*.whl") if path.name.endswith(ending))


def try_package(package: Path) -> int:
    """Install it into an empty environment and run the quickstart and the pages."""
    with tempfile.TemporaryDirectory(prefix="tokenmill-try-") as folder:
        work = Path(folder)
        venv.create(work / "venv", with_pip=True)
        programs = work / "venv" / ("Scripts" if os.name == "nt" else "bin")
        environment = _environment(programs, with_rust=package.suffix != ".whl")
        python = str(programs / "python")
        steps = [
            [python, "-m", "pip", "install", "--quiet", str(package)],
            [python, "-m", "pip", "check"],
            [str(programs / "tokenmill"), "quickstart", "--output", "quickstart"],
            [python, str(ROOT / "tests" / "docs" / "blocks.py"), *PAGES],
        ]
        for step in steps:
            code = subprocess.run(step, cwd=work, env=environment, check=False).returncode  # noqa: S603
            if code:
                print(f"{package.name}: {' '.join(step)} ended with {code}", file=sys.stderr)
                return code
    print(f"{package.name}: installs and works")
    return 0


def _environment(programs: Path, *, with_rust: bool) -> dict[str, str]:
    """Return this environment with `programs` first on the PATH, and without Rust unless `with_rust`."""
    base = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))}
    folders = [str(programs), *os.environ["PATH"].split(os.pathsep)]
    if not with_rust:
        folders = [name for name in folders if not shutil.which("cargo", path=name)]
    return base | {"PATH": os.pathsep.join(folders)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
