"""`tokenmill doctor`: check tokenizer, machine, output directory and set-up."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Literal

from pydantic import BaseModel
from pydantic.dataclasses import dataclass

import tokenmill
from tokenmill.base import words
from tokenmill.base.durable import find_existing, is_alive, read_progress
from tokenmill.base.machine import FALSE, GB, Machine, list_instructions, measure, open_file_limit
from tokenmill.datasets.store import ObjectStore
from tokenmill.errors import ConfigError, MissingExtraError, TokenmillError
from tokenmill.settings.resolve import PREFIX, VARIABLES, resolve
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import cut_ranges, discover, infer_fields
from tokenmill.sources.read import read_first_documents
from tokenmill.sources.stores import check_keeper, is_remote, open_filesystem

Status = Literal["ok", "warning", "problem"]
ORDER: tuple[Status, ...] = ("ok", "warning", "problem")
# Compared when no data is given: letters, digits, spaces, code, three scripts, marks and an emoji.
SAMPLES = (
    "Hello, world! It's 2026; we've 1234567 tokens & counting...\n\n  Done.",
    "def f(x):\n    return {'a': [1, 2.5e-3], \"b\": x != None}  # \tcomment\r\n",
    "안녕하세요. 토크나이저를 검증합니다! 你好世界。こんにちは、カタカナ ー。",
    "naïve café — Ελληνικά, Русский, العربية, हिन्दी, ไทย 🙂👩‍💻 x²",
)
TRAIN = "tokenmill train INPUT --vocab-size 32000 --output DIR"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only its size is read
# Compressed text grows about fourfold. A token covers about 3.5 bytes and takes at most 4, plus indexes.
EXPANSION = 4.0
BYTES_PER_TEXT_BYTE = 4 / 3.5 * 1.05
ROOM = 100 * 1000**2
PACKAGES = ("numpy", "pyarrow", "tokenizers", "transformers", "datasets", "ray", "torch")
# For each check: its meaning if it passes, its meaning if it fails, and the fix.
MEANINGS = {
    "tokenizer": (
        "a fast engine runs it",
        "a Python tokenizer: some 10 to 50 times slower than a fast one",
        f"load its fast version (use_fast=True), or train one: {TRAIN}",
    ),
    "parity": (
        "native can be trusted with this tokenizer",
        "native and Hugging Face differ; a job would fall back to huggingface",
        "report it with this line; until then: --strategy huggingface",
    ),
    "golden ids": (
        "datasets and models made before still fit",
        "the same text has other ids now: data and models made before do not fit",
        "install the versions that wrote the file, or prepare the data again",
    ),
    "cores": (
        "a job uses this many threads",
        "a quota leaves a quarter of the cores or less",
        "raise the container's CPU limit (docker run --cpus N)",
    ),
    "memory": (
        "enough for a job",
        "a job needs about 250 MB, or 1 GB for large batches",
        "free memory, or raise the container's limit (docker run --memory 2g)",
    ),
    "cpu features": (
        "vector code in use",
        "portable code in use, at about half the speed",
        "use a CPU with AVX2 or NEON, give the virtual machine the host's CPU, or unset TOKENMILL_CPU",
    ),
    "open files": (
        "enough for thousands of shards",
        "a dataset of many shards may not open",
        "ulimit -n 65536",
    ),
    "shared memory": (
        "enough for data loader workers",
        "data loader workers may die with a bus error",
        "docker run --shm-size 1g",
    ),
    "free space": (
        "enough room",
        "the disk would fill up before the end",
        "free space (df -h), or choose another --output",
    ),
    "locks": (
        "two jobs with one output notice each other",
        "two jobs with one output may do the same work twice; the result is still correct",
        "mount it with locks (NFS: option local_lock=none), or start one job at a time",
    ),
    "leftovers": (
        "no dead run left anything here",
        "a run was killed here; its output does not count until it is finished",
        "run the same tokenmill prepare again: it continues where it stopped and cleans up",
    ),
}


@dataclass(frozen=True)
class Check:
    """The result of one check: name, status, finding, meaning and fix."""

    name: str
    status: Status
    found: str
    meaning: str
    fix: str | None = None


class Report(BaseModel):
    """All checks and the worst status among them."""

    version: Literal[1] = 1
    status: Status
    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> int:
        """Return 1 if there is a problem, else 0."""
        return int(self.status == "problem")


def _judge(name: str, found: str, *, bad: bool, status: Status = "warning") -> Check:
    meaning, consequence, fix = MEANINGS[name]
    return Check(name, status, found, consequence, fix) if bad else Check(name, "ok", found, meaning)


def examine(
    tokenizer: str | None = None,
    data: tuple[str, ...] = (),
    output: str | None = None,
    environ: Mapping[str, str] = os.environ,
    machine: Machine | None = None,
    golden: str | None = None,
) -> Report:
    """Check this machine and, if given, a tokenizer, its data, the output directory and golden ids."""
    machine = machine or measure(environ)
    place = output or str(Path.cwd())
    parts = {
        "tokenizer": check_tokenizer(tokenizer, data) if tokenizer is not None else iter(()),
        "golden ids": check_golden(golden, tokenizer) if golden is not None else iter(()),
        "machine": check_machine(machine),
        "output": check_store(place) if is_remote(place) else check_output(Path(place), data),
        "environment": check_environment(machine, environ),
        "extras": check_extras(data, output),
    }
    checks: list[Check] = []
    for name, part in parts.items():
        try:
            checks += part
        except OSError as error:
            found, fix = f"{type(error).__name__}: {error}", "check the path and its permissions"
            checks.append(Check(name, "problem", found, "this part could not be checked", fix))
    worst = max((check.status for check in checks), key=ORDER.index, default=ORDER[0])
    return Report(status=worst, checks=tuple(checks))


def check_tokenizer(tokenizer: str, data: tuple[str, ...] = ()) -> Iterator[Check]:
    """Report the engine of a tokenizer, and compare its ids with Hugging Face's on `data` if possible."""
    from tokenmill.tokenizer.parity import check_parity
    from tokenmill.tokenizer.tokenizer import Tokenizer

    try:
        loaded = Tokenizer.load(tokenizer)
    except TokenmillError as error:
        name, fix = "tokenizer", f"check the path, or train one: {TRAIN}"
        if isinstance(error, MissingExtraError):
            name, fix = "extras", "pip install 'tokenmill[hf]'"
        yield Check(name, "problem", str(error), f"{tokenizer} cannot be loaded", fix)
        return
    shown = f"{loaded.source}: {loaded.vocab_size} tokens, {loaded.strategy}"
    yield _judge("tokenizer", shown, bad=loaded.strategy.name == "python", status="problem")
    own = read_sample(data)
    verdict = check_parity(loaded, own or SAMPLES)
    if verdict.skipped:
        needed, fix = (
            loaded.engine.needs_parity_check,
            "pip install 'tokenizers<1', or compare the ids yourself",
        )
        meaning = verdict.skipped.replace("\n", " ")
        yield Check("parity", "warning" if needed else "ok", "not compared", meaning, fix if needed else None)
        return
    same = f"same ids on {verdict.documents} {'of your documents' if own else 'built-in documents'}"
    yield _judge("parity", verdict.difference or same, bad=verdict.difference is not None, status="problem")


def check_golden(path: str, tokenizer: str | None) -> Iterator[Check]:
    """Compare the ids of the golden strings with those that `tokenizer card --golden` wrote."""
    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.vocab.golden import find_difference, load_golden

    try:
        golden = load_golden(path)
        loaded = Tokenizer.load(tokenizer or golden["source"])
    except TokenmillError as error:
        fix = "correct the path, or name the tokenizer with --tokenizer"
        yield Check("golden ids", "problem", str(error), "the ids could not be compared", fix)
        return
    count = len(golden["strings"])
    same = f"{loaded.source}: same ids on {count:,} strings"
    if loaded.fingerprint != golden["fingerprint"]:
        same += "; its fingerprint is another"
    found = find_difference(loaded, golden)
    yield _judge("golden ids", found or same, bad=found is not None, status="problem")


def read_sample(data: tuple[str, ...]) -> list[str]:
    """Return the first documents of the inputs, or an empty list if they cannot be read."""
    if not data:
        return []
    try:
        files = discover(SourceConfig(inputs=data))
        source, _ = infer_fields(SourceConfig(inputs=data), files)
        return read_first_documents(files, source).texts
    except TokenmillError:
        return []


def check_machine(machine: Machine) -> Iterator[Check]:
    """Check cores, memory, CPU features and limits."""
    cores, memory = machine.cores, machine.memory
    few = cores.quota is not None and cores.usable < cores.host and cores.usable * 4 <= cores.affinity
    yield _judge("cores", f"{cores.usable} usable ({cores.reason})", bad=few)
    status: Status = "problem" if memory.available < GB // 4 else "warning"
    found = f"{memory.available / GB:.1f} GB available ({memory.reason})"
    yield _judge("memory", found, bad=memory.available < GB, status=status)
    name, features = list_instructions()
    found = f"{name}: {', '.join(features)}" if features else "none that the core can use"
    yield _judge("cpu features", found, bad=not features)
    files = open_file_limit()
    yield _judge("open files", f"limit {files}" if files >= 0 else "no limit", bad=0 <= files < 1024)
    if SHARED_MEMORY.is_dir():
        shared = shutil.disk_usage(SHARED_MEMORY).total
        yield _judge("shared memory", f"{words.size(shared)} in {SHARED_MEMORY}", bad=shared < 64 * 1000**2)


def check_output(output: Path, data: tuple[str, ...] = ()) -> Iterator[Check]:
    """Check the directory that a job would write to: permission, free space, locks, leftovers."""
    home = find_existing(output)
    in_the_way = next((path for path in (output, *output.parents) if path.exists()), output)
    if in_the_way.exists() and not in_the_way.is_dir():
        found, meaning = f"{in_the_way} is a file", "a job needs a directory there and would fail at once"
        yield Check("output", "problem", found, meaning, "choose another --output")
        return
    if not os.access(home, os.W_OK | os.X_OK):
        fix = f"chmod u+wx {home}, or choose another --output"
        found, meaning = f"{home} cannot be written", "a job would fail at its first shard"
        yield Check("output", "problem", found, meaning, fix)
        return
    free, needed = shutil.disk_usage(home).free, estimate_bytes(data)
    want = f", a dataset of this input takes up to {words.size(needed)}" if needed is not None else ""
    full = free < max(ROOM, needed or 0)
    found = f"{words.size(free)} free in {home}{_find_disk(home)}{want}"
    yield _judge("free space", found, bad=full, status="problem")
    if full:
        return
    kind, work = _find_filesystem(home), _locks_work(home)
    yield _judge("locks", f"{'work' if work else 'do not work'} on {kind}", bad=not work)
    left = _list_leftovers(output)
    yield _judge("leftovers", ", ".join(left) or "none", bad=bool(left))


def _find_disk(path: Path) -> str:
    """Return the type of the disk as the kernel reports it; empty for a file system without a disk."""
    number = path.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    for queue in (device / "queue", device / ".." / "queue"):  # a partition has the queue of its disk
        with suppress(OSError):
            kind = "HDD" if (queue / "rotational").read_text().strip() == "1" else "SSD"
            return f" (the kernel reports an {kind})"
    return ""


def _find_filesystem(path: Path) -> str:
    """Return the type of the file system that holds `path`: `"ext4"`, `"nfs4"`, or `"unknown"`."""
    import psutil

    target = path.resolve()
    mounts = [part for part in psutil.disk_partitions(all=True) if target.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else "unknown"


def _locks_work(directory: Path) -> bool:
    """Return True if a lock that is held cannot be taken a second time."""
    from filelock import FileLock, Timeout  # here, since importing it takes 50 ms

    path = directory / ".tokenmill-probe.lock"
    try:
        with FileLock(path), FileLock(path).acquire(blocking=False):
            return False
    except Timeout:
        return True
    finally:
        path.unlink(missing_ok=True)


def check_store(address: str) -> Iterator[Check]:
    """Write an object to the store that a job would write to, and delete it."""
    try:
        ObjectStore(address).check()
    except MissingExtraError:
        return  # reported by `check_extras`
    except TokenmillError as error:
        fix = "correct the address or the credentials, or choose another --output"
        yield Check("output", "problem", str(error), "a job would fail at once", fix)
    else:
        yield Check("output", "ok", f"{address} can be written", "jobs that share it notice each other")


def estimate_bytes(data: tuple[str, ...]) -> int | None:
    """Return the bytes that a dataset of these inputs may take, or None if unknown."""
    try:
        files = discover(SourceConfig(inputs=data)) if data else None
    except TokenmillError:
        files = None
    if files is None:
        return None
    # One range of a Parquet file has the size of its uncompressed columns.
    sizes = [(file, sum(part.size for part in cut_ranges(file, 1 << 62))) for file in files]
    text = sum(size * (EXPANSION if file.compression else 1) for file, size in sizes)
    return int(text * BYTES_PER_TEXT_BYTE)


def _list_leftovers(output: Path) -> list[str]:
    """Describe the unfinished files and the run of processes that have ended."""
    dead, left = [], []
    for path in output.rglob(f".tmp-{platform.node()}-*") if output.is_dir() else ():
        process = path.name.removeprefix(f".tmp-{platform.node()}-").split("-", 1)[0]
        if process.isdecimal() and not is_alive(int(process)):
            dead.append(path)
    if dead:
        size = sum(path.stat().st_size for path in dead if path.exists())
        left.append(f"{len(dead)} unfinished files ({words.size(size)})")
    run = read_progress(output)
    if run.get("state") == "running" and run.get("host") == platform.node() and not is_alive(run["pid"]):
        left.append(f"a run of process {run['pid']} that died")
    return left


def check_environment(machine: Machine, environ: Mapping[str, str]) -> Iterator[Check]:
    """Report the versions, and variables that are invalid, contradict each other or slow a job down."""
    versions = [f"python {platform.python_version()}", f"tokenmill {tokenmill.__version__}"]
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    yield Check("versions", "ok", ", ".join(versions), "a bug report needs these")
    try:
        warnings = resolve(environ=environ, machine=machine).warnings
    except ConfigError as error:
        yield Check(
            "environment", "problem", str(error), "a job would fail at once", "unset it, or correct it"
        )
        return
    parallel = environ.get("TOKENIZERS_PARALLELISM", "")
    if parallel.lower() in FALSE:
        yield Check(
            "environment",
            "problem" if machine.cores.usable > 1 else "warning",
            f"TOKENIZERS_PARALLELISM={parallel}",
            f"tokenizers use one thread of {machine.cores.usable}",
            "unset TOKENIZERS_PARALLELISM",
        )
    for name in ("OMP_PROC_BIND", "OMP_PLACES"):
        if machine.cores.ranks > 1 and environ.get(name, "false").lower() != "false":
            found, meaning = f"{name}={environ[name]}", "all ranks of this host may use the same cores"
            yield Check("environment", "warning", found, meaning, f"unset {name}")
    for warning in warnings:
        meaning = "the settings are not what they look like"
        yield Check("environment", "warning", warning, meaning, "unset it, or correct it")
    if parallel.lower() not in FALSE and not warnings:
        names = sorted(name for name in environ if name in VARIABLES or name.startswith(PREFIX))
        seen = ", ".join(f"{name}={environ[name]}" for name in names)
        yield Check("environment", "ok", seen or "none set", "automatic values fit this machine")


def check_extras(data: Sequence[str], output: str | None = None) -> Iterator[Check]:
    """Report missing packages that these URLs need."""
    places: list[tuple[str, Callable[[str], object]]] = [(url, open_filesystem) for url in data]
    if output is not None:
        places.append((output, check_keeper))
    for place, check in places:
        try:
            if is_remote(place):
                check(place)
        except TokenmillError as error:
            fix = "use a path, or a URL of a supported kind"
            if isinstance(error, MissingExtraError):
                fix = error.remedy
            yield Check("extras", "problem", str(error), f"{place} cannot be opened", fix)
