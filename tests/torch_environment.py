"""An interpreter that has torch: this one, one that is named, or Debian's in an environment of its own.

A CPU build of torch for Linux cannot be had from PyPI without gigabytes of CUDA; Debian's `python3-torch` can.
It was built against NumPy 1, so that environment keeps NumPy below 2 and a pyarrow that still works with it.
"""

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from environment_lock import only_one

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".venv-torch"
DEBIAN = "/usr/bin/python3"
NEEDED = [
    "click>=8.1", "filelock", "fsspec", "jinja2>=3.1.6", "psutil", "pydantic>=2.7", "pyyaml", "rich",
    "pyarrow>=17,<20", "numpy<2", "pytest", "pytest-timeout", "hypothesis",
]  # fmt: skip
WHY_NOT = "no torch: neither this Python nor Debian's python3-torch has one (apt-get install python3-torch, or set TOKENMILL_TORCH_PYTHON)"


@cache
def torch_python():
    """The path of an interpreter with torch and our dependencies, or None."""
    named = os.environ.get("TOKENMILL_TORCH_PYTHON")
    if named:
        return named
    if importlib.util.find_spec("torch"):
        return sys.executable
    return _debian() if _has_torch(DEBIAN) else None


def environ():
    """Variables with which that interpreter finds this checkout and nothing of ours."""
    package = Path(importlib.util.find_spec("tokenmill").origin).parent.parent
    ours = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_", "SLURM", "OMPI", "PMI", "TORCHELASTIC")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(package), str(ROOT / "tests")]),
        "OMP_NUM_THREADS": "1",
    }


def _has_torch(python):
    if not Path(python).exists():
        return False
    return subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0


def _debian():
    python = HOME / "bin" / "python"
    stamp = HOME / ".ready"
    with only_one(HOME):
        if not stamp.exists() or stamp.read_text() != repr(NEEDED):
            # Debian's own venv has no pip unless another package is installed; ours can install into it.
            options = ["--system-site-packages", "--without-pip"]
            subprocess.run([DEBIAN, "-m", "venv", *options, HOME], check=True)
            pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
            subprocess.run([*pip, *NEEDED], check=True)
            stamp.write_text(repr(NEEDED))
    return str(python)


def free_port():
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(python, arguments, size, timeout=120):
    """Start `size` ranks as torchrun would, without it: Debian's is broken on Python 3.11. -> [(code, out, err)]."""
    launch = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with tempfile.TemporaryDirectory() as folder:
        said = [[Path(folder, f"{rank}.{name}") for name in ("out", "err")] for rank in range(size)]
        processes = []
        for rank, (out, err) in enumerate(said):
            own = {**environ(), **launch, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            command = [python, *map(str, arguments)]
            with out.open("w") as stdout, err.open("w") as stderr:
                processes.append(subprocess.Popen(command, cwd=ROOT, env=own, stdout=stdout, stderr=stderr))
        try:
            _wait(processes, time.monotonic() + timeout)
        finally:
            for process in processes:
                process.kill()
        codes = [process.wait() for process in processes]
        return [
            (code, *(path.read_text() for path in paths)) for code, paths in zip(codes, said, strict=True)
        ]


def _wait(processes, until):
    """Until all have ended well, one has failed, or time is up."""
    while time.monotonic() < until:
        codes = [process.poll() for process in processes]
        if any(codes) or None not in codes:
            return
        time.sleep(0.05)


if __name__ == "__main__":
    # In place of torchrun: `python tests/torch_environment.py 2 script.py --its arguments`.
    ended = run_ranks(sys.executable, sys.argv[2:], int(sys.argv[1]), timeout=240)
    for code, out, err in ended:
        sys.stdout.write(out)
        sys.stderr.write(err + (f"(exit {code})\n" if code else ""))
    sys.exit(any(code for code, _, _ in ended))
