"""A call that fails or falls short: the correct bytes, or an error message and a second run that gives the correct bytes."""

import contextlib
import errno
import os
import re
import subprocess
from pathlib import Path

import pytest
from harness import FOR_EVER, SHORT, Fault, spread
from jobs import JOBS

ROOT = Path(__file__).parents[2]
FAULTS = {
    "write": (errno.EIO, errno.ENOSPC, errno.EINTR, SHORT),
    "fsync": (errno.EIO, errno.EINTR),
    "rename": (errno.EIO, errno.ENOSPC),
    "openat": (errno.EIO, errno.EINTR),
    "mkdir": (errno.EIO, errno.ENOSPC),
    "read": (errno.EIO, errno.EINTR, SHORT),
    "stat": (errno.EIO,),
    "mmap": (errno.ENOMEM,),
    "unlink": (errno.EIO,),
    "flock": (errno.EIO, errno.ENOLCK),
}
# Errors that neither Python nor this package distinguishes from EIO: all are a plain OSError, and only the number in
# the message differs (`test_alike_errors_are_handled_alike`). So a few of each show what EIO shows at every call.
ALIKE = {
    "rename": (errno.ESTALE,),
    "openat": (errno.EMFILE, errno.ENOMEM, errno.ESTALE),
    "read": (errno.ESTALE,),
    "stat": (errno.ESTALE,),
}
# Every Nth call by default; `DEEP_MOST=3` takes three of each kind, spread over the job.
MOST = int(os.environ.get("DEEP_MOST", "100000"))
MOST_ALIKE = 4
# A spill has 128 partitions, which one loop opens, reads and removes: more calls than these are the same call.
MOST_OF_JOB = {"train-counts": 100}
FEW = ("prepare-tokenmill", "prepare-arrow", "train", "convert-megatron", "commit")


def faults_of(made, most):
    most = min(most, MOST_OF_JOB.get(made.job.name, most))
    for table, limit in ((FAULTS, most), (ALIKE, min(most, MOST_ALIKE))):
        for kind, whats in table.items():
            for what in whats:
                for nth in spread(made.calls[kind], limit):
                    # A full disk stays full; everything else happens once.
                    fault = Fault(kind, nth, what, FOR_EVER if what == errno.ENOSPC else 1)
                    yield fault.label, {"fault": fault}


def test_alike_errors_are_handled_alike():
    names = {errno.errorcode[what] for whats in ALIKE.values() for what in whats}
    assert all(type(OSError(getattr(errno, name), "")) is OSError for name in names)
    code = [*(ROOT / "python").rglob("*.py"), *(ROOT / "crates").rglob("*.rs")]
    words = re.compile("|".join((*names, "OutOfMemory", "StaleNetworkFileHandle")))
    assert [path for path in code if words.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("name", FEW)
def test_a_few_faults(campaign, tally, name):
    made = campaign.prepared(JOBS[name])
    assert not campaign.hurt(made.job, tally("faults, a few"), dict(faults_of(made, 1)))


@pytest.mark.deep
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("name", JOBS)
def test_every_call_fails_once(campaign, tally, name):
    made = campaign.prepared(JOBS[name])
    assert not campaign.hurt(made.job, tally("faults at the Nth call"), dict(faults_of(made, MOST)))


@contextlib.contextmanager
def small_disk(place, size):
    """A file system of so many bytes at `place`; skips the test where nothing can be mounted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill_disk(campaign, name, size, tally):
    """The disk is full in the middle of the job; then it grows, and the same command resumes."""
    made = campaign.prepared(JOBS[name])
    place = campaign.new_place()
    with small_disk(place / "disk", size):
        argv = made.job.argv(made.inputs, place / "disk" / "out")
        first = campaign.run(argv)
        problems = made.judge(first, place / "disk")
        subprocess.run(["mount", "-o", "remount,size=100m", str(place / "disk")], check=True)
        again = campaign.run(argv)
        problems += made.judge(again, place / "disk", when="run again, it")
        if again.code != 0:
            problems.append(("wrong", f"run again, it fails with exit {again.code}"))
        return tally.add(f"{name} on a disk of {size} bytes", problems)


def test_a_small_disk(campaign, tally):
    assert not fill_disk(campaign, "prepare-tokenmill", 60_000, tally("a real full disk, a few"))


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", [job for job in JOBS if not job.startswith(("resume", "commit"))])
def test_small_disks(campaign, tally, name):
    sizes = [4096 * pages for pages in (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64)]
    broken = [fill_disk(campaign, name, size, tally("a real full disk")) for size in sizes]
    assert not [line for lines in broken for line in lines]
