"""The package on a system that lacks what Linux has: parts are taken away in a child, which then works."""

import subprocess
import sys

import pytest

# What macOS and Windows lack of Linux; the locks of Windows are played by those of Linux.
TAKE_AWAY = """
import fcntl, mmap, os, sys, types
# Others' modules find their way on every system by themselves.
import asyncio, multiprocessing.pool, psutil, pyarrow.parquet, pyarrow.compute, shutil, subprocess, tempfile
lock = fcntl.flock
system = sys.argv[1]
for name in ("posix_fadvise", "sched_getaffinity"):
    delattr(os, name)
if system == "windows":
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[name] = None
    for name in ("pwrite", "pread", "fork", "getuid"):
        delattr(os, name)
    for name in ("MAP_PRIVATE", "MAP_ANONYMOUS", *(name for name in dir(mmap) if name.startswith("MADV"))):
        delattr(mmap, name)
    class Map(mmap.mmap):
        madvise = property()
    mmap.mmap = Map
    def kill(process, signal):
        raise AssertionError("this would end the process on Windows")
    os.kill = kill
    psutil.pid_exists = lambda process: os.path.exists(f"/proc/{process}")
    real = os.open
    def open_(path, *rest):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *rest)
    os.open = open_
    msvcrt = types.ModuleType("msvcrt")
    msvcrt.LK_NBLCK = 2
    msvcrt.locking = lambda number, mode, count: lock(number, 2 | 4)
    sys.modules["msvcrt"] = msvcrt
"""
IMPORT_ALL = """
import importlib, pkgutil
import tokenmill
for found in pkgutil.walk_packages(tokenmill.__path__, "tokenmill."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""
WORK = """
from pathlib import Path
from tokenmill.base.machine import open_file_limit
sys.path.insert(0, sys.argv[3])
from byte_tokenizer import ByteTokenizer
folder = Path(sys.argv[2])
(folder / "a.jsonl").write_text('{"text": "one two"}\\n' * 200)
made = tokenmill.prepare(inputs=str(folder / "a.jsonl"), tokenizer=ByteTokenizer(), output=str(folder / "out"),
                         format="tokenmill", verbose_level="ERROR")
assert len(made) == 200
again = tokenmill.prepare(inputs=str(folder / "a.jsonl"), tokenizer=ByteTokenizer(), output=str(folder / "out"),
                          format="tokenmill", verbose_level="ERROR")
assert again.content_hash == made.content_hash
assert len(tokenmill.train(folder / "a.jsonl", 260, output=folder / "tok", progress=False).encode("one two")) > 1
assert open_file_limit() > 10
print("works")
"""


@pytest.mark.parametrize("system", ["macos", "windows"])
def test_the_package_works_without_what_only_linux_has(tmp_path, system, request):
    command = [sys.executable, "-c", TAKE_AWAY + IMPORT_ALL + WORK, system, str(tmp_path)]
    done = subprocess.run(
        [*command, str(request.config.rootpath / "tests")], capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("works\n"), done.stderr
