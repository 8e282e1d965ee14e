"""The place of the output: writable, fast, large enough, lockable, and free of dead runs."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from tokenmill.base.console import words
from tokenmill.base.hardware import disk
from tokenmill.base.platform import is_alive
from tokenmill.base.run_files import read_progress
from tokenmill.errors import TokenmillError
from tokenmill.report.doctor.doctor import Check

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Text under the usual compressors is three to four times as large; a token is some 3.5 bytes of text and
# is written as 2 or 4 bytes, here 4 to be safe, with a little for indexes.
EXPANSION = 4.0
BYTES_PER_TEXT_BYTE = 4 / 3.5 * 1.05
ROOM = 100 * 1000**2


def run_checks(output: Path, data: tuple[str, ...] = (), *, given: bool = True) -> Iterator[Check]:
    """Every check of the directory that a job would write to; the probe leaves nothing behind."""
    home = disk.find_existing(output)
    name = str(output) if given else f"{output} (no --output given)"
    in_the_way = next(
        (path for path in (output, *output.parents) if path.exists() and not path.is_dir()), None
    )
    if in_the_way is not None:
        yield Check(
            name="output",
            status="problem",
            found=f"{in_the_way} is a file",
            meaning="a job needs a directory there and would fail before it begins",
            fix="choose another --output",
        )
        return
    if not os.access(home, os.W_OK | os.X_OK):
        fix = f"chmod u+wx {home}, or choose another --output"
        found, meaning = f"{home} cannot be written", "a job would fail at its first shard"
        yield Check("output", "problem", found, meaning, fix)
        return
    space = check_free_space(home, estimate_bytes(data))
    yield space
    if space.status == "problem":
        return
    yield check_speed(home, name)
    yield check_locks(home)
    yield check_leftovers(output)


def estimate_bytes(data: tuple[str, ...]) -> int | None:
    """Bytes that a dataset of these inputs may take; None when nothing is known."""
    if not data:
        return None
    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources import discover

    try:
        files = discover(SourceConfig(inputs=data))
    except TokenmillError:
        return None
    text = sum(file.size * (EXPANSION if file.compression else 1) for file in files)
    return int(text * BYTES_PER_TEXT_BYTE)


def check_free_space(home: Path, needed: int | None) -> Check:
    """Free space against the estimate."""
    free = disk.free_bytes(home)
    want = f", a dataset of this input takes up to {words.size(needed)}" if needed is not None else ""
    found = f"{words.size(free)} free in {home}{want}"
    if free >= max(ROOM, needed or 0):
        return Check("free space", "ok", found, "enough room")
    fix = f"free space (df -h {home}), or choose another --output"
    return Check("free space", "problem", found, "the disk would fill up before the end", fix)


def check_speed(home: Path, name: str) -> Check:
    """A timed write and read: what the kernel says about a disk is wrong on virtual machines."""
    measured = disk.probe(home)
    speeds = f"{words.size(measured.write)}/s write, {words.size(measured.read)}/s read"
    flush = f"{measured.flush_seconds * 1000:.1f} ms per flush"
    found = f"{name}: {speeds}, {flush} ({disk.find_filesystem(home)})"
    if measured.kind != "slow":
        return Check("disk", "ok", found, "as fast as an SSD")
    meaning = "as slow as a hard disk or a remote one: writing may limit the speed"
    return Check("disk", "warning", found, meaning, "put --output on an SSD or NVMe disk")


def check_locks(home: Path) -> Check:
    """Whether a lock on this file system keeps a second process out."""
    kind = disk.find_filesystem(home)
    if disk.locks_work(home):
        return Check("locks", "ok", f"work on {kind}", "two jobs with one output notice each other")
    meaning = "two jobs with one output may do the same work twice; the result is still right"
    fix = "mount it with locks (NFS: option local_lock=none), or start one job at a time"
    return Check("locks", "warning", f"do not work on {kind}", meaning, fix)


def check_leftovers(output: Path) -> Check:
    """Unfinished files, and a run that says it is running although its process is gone."""
    dead = [path for path in output.rglob(".tmp-*") if _owner_is_dead(path.name)] if output.is_dir() else []
    run = _find_dead_run(output)
    if not dead and run is None:
        return Check("leftovers", "ok", "none", "no dead run left anything here")
    size = sum(path.stat().st_size for path in dead if path.exists())
    left = [f"{len(dead)} unfinished files ({words.size(size)})"] if dead else []
    left += [f"a run of process {run} that died"] if run is not None else []
    meaning = "a run was killed here; its output does not count until it is finished"
    fix = "run the same tokenmill prepare again: it continues where it stopped and cleans up"
    return Check("leftovers", "warning", ", ".join(left), meaning, fix)


def _owner_is_dead(name: str) -> bool:
    """`.tmp-host-123-9f3c-shard.bin` belongs to process 123 of host; only this host's can be judged."""
    rest = name.removeprefix(f".tmp-{platform.node()}-")
    process = rest.split("-", 1)[0]
    return rest != name and process.isdecimal() and not is_alive(int(process))


def _find_dead_run(output: Path) -> int | None:
    progress = read_progress(output) or {}
    process, here = progress.get("pid"), progress.get("host") == platform.node()
    if progress.get("state") != "running" or not here or not isinstance(process, int):
        return None
    return None if is_alive(process) else process
