"""An interpreter that has `tokenizers` 1.x, whose API is another one: this one's packages, with that one on top."""

import importlib.util
import os
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from environment_lock import only_one

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".venv-tokenizers-1"
# Named exactly, since a release candidate is installed only if it is named.
NEEDED = "tokenizers==1.0.0rc3"
WHY_NOT = (
    f"no {NEEDED}: pip could not install it (is there no index?); set TOKENMILL_TOKENIZERS_1_PYTHON to an "
    "interpreter that has it"
)


@cache
def tokenizers_1_python():
    """The path of an interpreter with `tokenizers` 1.x and all that this one has, or None."""
    named = os.environ.get("TOKENMILL_TOKENIZERS_1_PYTHON")
    if named:
        return named
    with only_one(HOME):
        return _make()


def _make():
    python, stamp = HOME / "bin" / "python", HOME / ".ready"
    if stamp.exists() and stamp.read_text() == _identity():
        return str(python)
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", HOME], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(HOME), "platbase": str(HOME)}))
    # Searched after its own packages, so that its `tokenizers` is found first.
    (site / "below.pth").write_text("\n".join(_packages()) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", NEEDED]
    if subprocess.run(pip, check=False, capture_output=True).returncode:
        return None
    stamp.write_text(_identity())
    return str(python)


def _packages():
    """Where this interpreter finds our package and what it needs."""
    ours = str(Path(importlib.util.find_spec("tokenmill").origin).parent.parent)
    return [ours, *(path for path in sys.path if path.endswith("-packages"))]


def _identity():
    return "\n".join([NEEDED, sys.version, *_packages()])
