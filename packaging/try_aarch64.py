"""Install the ARM wheel into an ARM Debian's Python in an emulator; run the quickstart and tokenizer tests.

    python packaging/try_aarch64.py

Needs apt, dpkg and qemu-aarch64 (package qemu-user), and no root: packages are unpacked into build/aarch64.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / "build" / "aarch64"
SYSTEM, APT, SITE = HOME / "system", HOME / "apt", HOME / "site"
TESTS = ("test_tokenizer.py", "test_strings.py", "test_decode.py", "test_file_readers.py")
# The emulator runs a single program: tests that start another one, or send it a signal, cannot run there.
LEFT_OUT = "not children and not ctrl_c and not needs_no_numpy"
NEEDED = ("pytest", "pytest-timeout", "hypothesis", "tokenizers", "tiktoken", "regex")


def run(*command: str | Path, **environment: str) -> str:
    """Run a command and return what it printed; an error ends everything."""
    done = subprocess.run(  # noqa: S603
        [str(word) for word in command],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=HOME,
    )
    return done.stdout


def fetch_system() -> None:
    """Unpack Python and its dependencies for ARM, from this machine's apt sources."""
    for part in ("state/lists/partial", "cache/archives/partial", "debs"):
        (APT / part).mkdir(parents=True, exist_ok=True)
    (APT / "status").touch()
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
        "Dir::State": str(APT / "state"),
        "Dir::State::status": str(APT / "status"),
        "Dir::Cache": str(APT / "cache"),
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    run("apt-get", *options, "update", "-qq")
    planned = run(
        "apt-get", *options, "install", "--print-uris", "-qq", "python3.11", "libgomp1", "libstdc++6"
    )
    names = [line.split()[1].split("_")[0] for line in planned.splitlines() if line.startswith("'")]
    subprocess.run(["apt-get", *options, "download", "-qq", *names], cwd=APT / "debs", check=True)  # noqa: S603, S607
    for deb in sorted((APT / "debs").glob("*.deb")):
        run("dpkg-deb", "-x", deb, SYSTEM)


def install_wheel() -> None:
    """Install the wheel, its dependencies and those of the tests into one folder; nothing is built."""
    (wheel,) = sorted((ROOT / "dist").glob("*manylinux*aarch64.whl"))
    platforms = [
        word for tag in ("2_17", "2_28", "2_34") for word in ("--platform", f"manylinux_{tag}_aarch64")
    ]
    kind = ["--only-binary=:all:", "--python-version", "3.11", "--implementation", "cp", *platforms]
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--upgrade",
        "--target",
        SITE,
        *kind,
        wheel,
        *NEEDED,
    )


def main() -> int:
    """Fetch what is missing, then run everything in the emulator."""
    HOME.mkdir(parents=True, exist_ok=True)
    if not (SYSTEM / "usr/bin/python3.11").exists():
        fetch_system()
    install_wheel()
    shutil.rmtree(HOME / "quickstart", ignore_errors=True)
    python = ["qemu-aarch64", "-L", str(SYSTEM), str(SYSTEM / "usr/bin/python3.11")]
    environment = {"PYTHONPATH": str(SITE), "TOKENMILL_CACHE": str(HOME / "cache")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    script = "import platform, tokenmill; print(platform.machine(), tokenmill.__version__)"
    print(run(*python, "-c", script, **environment))
    print(
        run(*python, "-m", "tokenmill", "quickstart", "--output", HOME / "quickstart", **environment)[-600:]
    )
    files = [ROOT / "tests" / "unit" / "tokenizer" / name for name in TESTS]
    options = ("-q", "--timeout", "1200", "-p", "no:cacheprovider", "-k", LEFT_OUT)
    print(run(*python, "-m", "pytest", *options, *files, **environment)[-300:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
