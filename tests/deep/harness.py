"""Run a job as a child, hurt it, run it again, and compare with a clean run.

A child is a fork of a process that has imported everything, so that thousands of tries take minutes. The shim
`faults.c` is loaded into it and makes the Nth call of a kind fail, fall short, or end the process.

`python tests/deep/harness.py JOB "write 17 5 1"` does one try again and shows what the two runs said.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import faulthandler
import gc
import hashlib
import importlib
import io
import json
import os
import pkgutil
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
KINDS = ("write", "fsync", "rename", "openat", "mkdir", "read", "stat", "mmap", "unlink", "flock")
KILL_BEFORE, KILL_AFTER, SHORT, TORN = -1, -2, -3, -4
FOR_EVER = 0
# What differs between two runs that are equal: times, and what a run says of itself.
NOT_CONTENT = {"progress.json", "report.html", "report.json", "training.json"}
OURS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM", "OMPI", "PMI", "TORCHELASTIC", "FAULT", "TOKENMILL_")
# No sentence of ours has these words; a message with one of them was written for a developer.
DEVELOPER_WORDS = (
    "Traceback (most recent call last)",
    "panicked at",
    "memory allocation of",
    "Fatal Python error",
)


@dataclass(frozen=True)
class Fault:
    """The Nth call of a kind does `what` (an errno, or one of the negative numbers), so many times."""

    kind: str
    nth: int
    what: int
    times: int = 1

    def __str__(self) -> str:
        return f"{self.kind} {self.nth} {self.what} {self.times}"

    @property
    def label(self) -> str:
        """What reproduces it, and what it means."""
        names = {KILL_BEFORE: "kill before", KILL_AFTER: "kill after", SHORT: "short", TORN: "torn"}
        return f'"{self}" ({names.get(self.what) or errno.errorcode[self.what]})'


@dataclass(frozen=True)
class Run:
    """How one command ended."""

    argv: tuple[str, ...]
    code: int
    hung: bool
    seconds: float
    memory: int
    out: str
    err: str

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL and not self.hung

    @property
    def aborted(self) -> bool:
        """Ended by a signal that we did not send: SIGSEGV, SIGABRT, SIGBUS…"""
        return self.code < 0 and not self.killed and not self.hung

    @property
    def traceback(self) -> bool:
        return self.aborted or any(word in self.err for word in DEVELOPER_WORDS)

    @property
    def mute(self) -> bool:
        """Failed without a message."""
        return self.code > 0 and not self.err.strip()


@dataclass
class Tally:
    """What came of a series of tries; `failures` has a line for each that broke a promise or left files behind."""

    name: str
    tries: int = 0
    survived: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, label: str, problems: list[tuple[str, str]]) -> list[str]:
        """Count one try; `problems` are pairs of a column of the table and a description. Return a line for each."""
        self.tries += 1
        self.survived += not any(column != "litter" for column, _ in problems)
        for column in {column for column, _ in problems}:
            self.counts[column] += 1
        lines = [f"{label}: {column}: {sentence}" for column, sentence in problems]
        self.failures += lines
        return [line for line, (column, _) in zip(lines, problems, strict=True) if column != "litter"]


def spread(calls: int, most: int) -> list[int]:
    """At most so many of 1…calls, evenly: `spread(9, 3)` -> [2, 5, 8]."""
    if calls <= most:
        return list(range(1, calls + 1))
    return sorted({1 + calls * (2 * at + 1) // (2 * most) for at in range(most)})


def build_shim(directory: Path) -> Path:
    """The compiled shim; raises `FileNotFoundError` where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise FileNotFoundError("no C compiler: the fault shim cannot be built")
    target = directory / "faults.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", target, HERE / "faults.c", "-ldl"], check=True)
    return target


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return kept | {"PYTHONFAULTHANDLER": "0", "OPENBLAS_NUM_THREADS": "1"} | more


class Forker:
    """A process with everything imported, which forks one child per command; use it from one thread at a time."""

    def __init__(self, shim: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(
                LD_PRELOAD=str(shim), PYTHONPATH=os.pathsep.join([str(HERE.parent), *sys.path])
            ),
        )

    def run(self, argv, *, env=None, timeout=60.0, kill_after=None, memory=None) -> Run:
        """One `tokenmill` command. `kill_after` seconds ends it by SIGKILL, `memory` is its limit in bytes."""
        request = {
            "argv": [str(part) for part in argv],
            "env": {name: str(value) for name, value in (env or {}).items()},
            "timeout": timeout,
            "kill_after": kill_after,
            "memory": memory,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the forking process is gone")
        return Run(tuple(request["argv"]), **json.loads(answer))

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(120)  # a loaded machine takes its time
        self._process.stdout.close()


def serve() -> None:
    """The forking process: a request per line on stdin, an answer per line on stdout."""
    with contextlib.suppress(ImportError):
        importlib.import_module("pandas")  # else Arrow imports it in every child, 0.3 s
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
    import yaml  # noqa: F401

    import tokenmill.cli

    for module in pkgutil.walk_packages(tokenmill.__path__, "tokenmill."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    answers = os.fdopen(os.dup(1), "w")
    requests = os.fdopen(os.dup(0), "r")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    _warm_up(tokenmill.cli.main)
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page that holds an object
    for line in requests:
        answers.write(json.dumps(_answer(json.loads(line), tokenmill.cli.main)) + "\n")
        answers.flush()


def _warm_up(main) -> None:
    """Do a job of its own, so that no child builds validators and imports what a job imports: 0.04 of 0.09 s."""
    with quick_directory() as place, contextlib.redirect_stderr(io.StringIO()):
        (place / "a.txt").write_text("the cat sat on the mat " * 40)
        common = (str(place / "a.txt"), "--threads", "1")
        main(["train", *common, "--output", str(place / "t"), "--vocab-size", "260", "--quiet"])
        prepare = ("prepare", *common, "--tokenizer", str(place / "t"), "--output", str(place / "d"))
        main([*prepare, "--no-show-progress", "--no-parity-check"])


def _answer(request, main) -> dict[str, object]:
    with tempfile.TemporaryFile("w+b") as out, tempfile.TemporaryFile("w+b") as err:
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            _be_the_command(request, out.fileno(), err.fileno(), main)
        code, hung, memory = _wait(child, started, request["timeout"], request["kill_after"])
        seconds = time.monotonic() - started
        for file in (out, err):
            file.seek(0)
        texts = [file.read(200_000).decode("utf-8", "replace") for file in (out, err)]
    said = {"out": texts[0], "err": texts[1]}
    return {"code": code, "hung": hung, "seconds": seconds, "memory": memory, **said}


def _wait(child, started, timeout, kill_after) -> tuple[int, bool, int]:
    ready = os.pidfd_open(child)
    try:
        ended = _ends_in(ready, started, timeout if kill_after is None else kill_after)
        if kill_after is None:
            # A machine with dozens of processes in line for two cores is no hang.
            while not ended and time.monotonic() - started - _starved(child) < timeout:
                ended = _ends_in(ready, time.monotonic(), 1.0)
            if not ended:
                os.kill(child, signal.SIGUSR1)  # it says where it is
                _ends_in(ready, time.monotonic(), 2.0)
    finally:
        os.close(ready)
    # Its own workers, if it has any, are in its group.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), not ended and kill_after is None, used.ru_maxrss << 10


def _ends_in(ready, since, seconds) -> bool:
    return bool(select.select([ready], [], [], max(0.0, seconds - (time.monotonic() - since)))[0])


def _starved(child) -> float:
    """Seconds for which a process wanted a core and had none: of its threads, the one that waited longest."""
    waited = [0]
    for thread in Path(f"/proc/{child}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            waited.append(int(thread.read_text().split()[1]))
    return max(waited) / 1e9


def _be_the_command(request, out, err, main) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.environ.update(request["env"])
        tempfile.tempdir = None
        faulthandler.register(signal.SIGUSR1, file=err)
        if request["memory"]:
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
        ctypes.CDLL(None).faults_arm()
        sys.argv = ["tokenmill", *request["argv"]]
        main()
        code = 0
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException:  # noqa: BLE001 - what Python itself would print
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def tree(root: Path) -> dict[str, str]:
    """Name -> hash of everything in a directory that is content."""
    found = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        hidden = any(name.startswith(".") for name in relative.parts)
        if path.is_file() and not hidden and path.name not in NOT_CONTENT:
            found[str(relative)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def leftovers(root: Path) -> list[str]:
    """Unfinished files and folders, of which none may be there once a command has ended well."""
    return [str(path.relative_to(root)) for path in root.rglob(".*")]


@contextlib.contextmanager
def quick_directory():
    """A directory that is removed at the end, in memory where the system has room there: no try waits for a disk."""
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30
    with tempfile.TemporaryDirectory(prefix="tokenmill-deep-", dir=memory if has_room else None) as path:
        yield Path(path).resolve()


class Campaign:
    """One place for the inputs of all jobs and the outputs of all tries, and forkers that share the work."""

    def __init__(self, root: Path, workers: int | None = None) -> None:
        self.root = root
        self.shim = build_shim(root)
        self.environment = {
            "TOKENMILL_CACHE": str(root / "cache"),
            "TMPDIR": str(root / "tmp"),
            "FAULT_UNDER": str(root),
        }
        (root / "tmp").mkdir()
        self._free: list[Forker] = []
        self._lock = threading.Lock()
        self.workers = workers or os.cpu_count() or 1
        self._made: dict[str, Prepared] = {}
        self._number = 0

    def run(
        self, argv, *, fault: Fault | None = None, counts: Path | None = None, env=None, **options
    ) -> Run:
        more = {"FAULT": str(fault)} if fault else {}
        if counts is not None:
            more["FAULT_COUNTS"] = str(counts)
        with self._lock:
            forker = self._free.pop() if self._free else Forker(self.shim)
        try:
            return forker.run(argv, env=self.environment | more | (env or {}), **options)
        finally:
            with self._lock:
                self._free.append(forker)

    def prepared(self, job) -> Prepared:
        """The job with its inputs made, its clean result and how often it makes each call; made once."""
        if job.name not in self._made:
            self._made[job.name] = Prepared.of(self, job)
        return self._made[job.name]

    def new_place(self) -> Path:
        with self._lock:
            self._number += 1
            place = self.root / "tries" / f"{self._number:06d}"
        place.mkdir(parents=True)
        return place

    def each(self, work, things):
        """`work` of every thing, two at once for each core, since a try waits before it reads again; in order."""
        with ThreadPoolExecutor(2 * self.workers) as pool:
            yield from pool.map(work, things)

    def hurt(self, job, tally: Tally, hurts: dict[str, dict[str, object]]) -> list[str]:
        """Try the job once for each way to hurt it; a line for every promise that was broken."""
        made = self.prepared(job)
        tries = self.each(lambda way: made.attempt(self, **way), hurts.values())
        broken = [
            tally.add(f"{job.name} {label}", problems) for label, problems in zip(hurts, tries, strict=True)
        ]
        return [line for lines in broken for line in lines]

    def close(self) -> None:
        for forker in self._free:
            forker.close()


@dataclass
class Prepared:
    """A job, what it starts from, and its output without interruptions."""

    job: object
    inputs: Path
    before: Path | None
    clean: dict[str, str]
    calls: dict[str, int]
    seconds: float

    @classmethod
    def of(cls, campaign: Campaign, job) -> Prepared:
        inputs = campaign.root / "inputs" / job.name
        inputs.mkdir(parents=True)
        before = job.make(campaign, inputs)
        made = cls(job, inputs, before, {}, {}, 0.0)
        place, counts = campaign.new_place(), campaign.root / f"{job.name}.counts"
        made.lay_out(place)
        run = campaign.run(job.argv(inputs, place / "out"), counts=counts, timeout=300)
        assert run.code == 0, f"{job.name} fails by itself: {run.err}"
        numbers = memoryview(counts.read_bytes()).cast("Q")
        made.clean = tree(place / "out")
        made.calls = dict(zip(KINDS, numbers, strict=False))
        made.seconds = run.seconds
        shutil.rmtree(place)
        return made

    def lay_out(self, place: Path) -> None:
        if self.before is not None:
            shutil.copytree(self.before, place / "out", symlinks=True)

    def attempt(self, campaign: Campaign, *, fault=None, **hurt) -> list[tuple[str, str]]:
        """Hurt the job once, run it again, and say what promise was broken; an empty list is good."""
        place = campaign.new_place()
        self.lay_out(place)
        argv = self.job.argv(self.inputs, place / "out")
        first = campaign.run(argv, fault=fault, **hurt)
        problems = self.judge(first, place)
        if first.code != 0:
            again = campaign.run(argv)
            problems += self.judge(again, place, when="run again, it")
            if again.code != 0:
                problems.append(("wrong", f"run again, it fails with exit {again.code}: {last_words(again)}"))
        if not problems and leftovers(place / "out"):
            problems.append(("litter", f"left behind: {', '.join(leftovers(place / 'out')[:3])}"))
        shutil.rmtree(place)
        return problems

    def judge(self, run: Run, place: Path, when: str = "it") -> list[tuple[str, str]]:
        """What a run must never do, whatever was done to it."""
        if run.hung:
            return [("hang", f"{when} did not end in {run.seconds:.0f} s: {run.err[-2000:]}")]
        if run.traceback:
            return [("traceback", f"{when} ended with exit {run.code}: {last_words(run)}")]
        if run.mute:
            return [("mute", f"{when} failed with exit {run.code} and no word")]
        return self._compare(place, f"{when} ended well with other bytes") if run.code == 0 else []

    def _compare(self, place: Path, words: str) -> list[tuple[str, str]]:
        found = tree(place / "out")
        if found == self.clean:
            return []
        names = sorted(name for name in {*found, *self.clean} if found.get(name) != self.clean.get(name))
        return [("wrong", f"{words}: {len(names)} of {len(self.clean)} files, first {', '.join(names[:3])}")]


def last_words(run: Run) -> str:
    lines = [line for line in run.err.splitlines() if line.strip()]
    return " | ".join(lines[-2:])[:400]


def format_table(tallies: list[Tally]) -> str:
    """The campaign's one table."""
    columns = ("wrong", "hang", "traceback", "mute", "litter")
    heads = ("campaign", "tries", "survived", "wrong", "hangs", "tracebacks", "mute", "litter")
    total = Tally("all", sum(tally.tries for tally in tallies), sum(tally.survived for tally in tallies))
    for tally in tallies:
        total.counts.update(tally.counts)
    figures = [
        (t.name, f"{t.tries:,}", f"{t.survived:,}", *(str(t.counts[c]) for c in columns))
        for t in [*tallies, total]
    ]
    rows = [heads, *figures]
    widths = [max(len(row[at]) for row in rows) for at in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def show_one(name: str, fault: str) -> None:
    """One try again, with all that was said."""
    import jobs

    with quick_directory() as root:
        campaign = Campaign(root, 1)
        made = campaign.prepared(jobs.JOBS[name])
        print("calls:", made.calls)
        kind, nth, what, times = fault.split()
        place = campaign.new_place()
        made.lay_out(place)
        for hurt in (Fault(kind, int(nth), int(what), int(times)), None):
            run = campaign.run(made.job.argv(made.inputs, place / "out"), fault=hurt)
            print(f"--- {hurt}: exit {run.code}, {run.seconds:.2f} s\n{run.err}")
            print("problems:", made.judge(run, place), "left:", leftovers(place / "out"))
        campaign.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        show_one(*sys.argv[1:3])
