"""`tokenmill doctor`: check tokenizer, machine, output directory and set-up."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import tokenmill
from tokenmill.base import words
from tokenmill.base.durable import find_existing
from tokenmill.base.machine import FALSE, GB, Machine, list_instructions, measure
from tokenmill.datasets.store import ObjectStore
from tokenmill.errors import TokenmillError
from tokenmill.settings.resolve import PREFIX, VARIABLES, resolve
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import cut_ranges, discover, infer_fields
from tokenmill.sources.read import read_first_documents
from tokenmill.sources.stores import is_remote, open_filesystem

Status = Literal["ok", "warning", "problem"]
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
}


@dataclass(frozen=True)
class Check:
    """The result of one check: name, status, finding, meaning and fix."""

    name: str
    status: Status
    found: str
    meaning: str
    fix: str | None = None


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
) -> list[Check]:
    """Check this machine and, if given, a tokenizer, its data, the output directory and golden ids."""
    machine = machine or measure(environ)
    place = output or str(Path.cwd())
    parts = {
        "tokenizer": check_tokenizer(tokenizer, data) if tokenizer is not None else iter(()),
        "golden ids": check_golden(golden, tokenizer) if golden is not None else iter(()),
        "machine": check_machine(machine),
        "output": check_store(place) if is_remote(place) else check_output(Path(place), data),
        "environment": check_environment(machine, environ),
        "data": check_urls(data),
    }
    checks: list[Check] = []
    for name, part in parts.items():
        try:
            checks += part
        except (OSError, TokenmillError) as error:
            fix = getattr(error, "remedy", "correct the path, the address or the value that is named")
            checks.append(Check(name, "problem", str(error), "a job would fail at once", fix))
    return checks


def check_tokenizer(tokenizer: str, data: tuple[str, ...] = ()) -> Iterator[Check]:
    """Report the engine of a tokenizer, and compare its ids with Hugging Face's on `data` if possible."""
    from tokenmill.tokenizer.parity import check_parity
    from tokenmill.tokenizer.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer)
    shown = f"{loaded.source}: {loaded.vocab_size} tokens, {loaded.strategy}"
    yield _judge("tokenizer", shown, bad=loaded.strategy.name == "python", status="problem")
    own = read_sample(data)
    verdict = check_parity(loaded, own or SAMPLES)
    if verdict.skipped:
        status: Status = "warning" if loaded.engine.needs_parity_check else "ok"
        fix = "pip install 'tokenizers<1', or compare the ids yourself" if status == "warning" else None
        yield Check("parity", status, "not compared", verdict.skipped.replace("\n", " "), fix)
        return
    same = f"same ids on {verdict.documents} {'of your documents' if own else 'built-in documents'}"
    yield _judge("parity", verdict.difference or same, bad=verdict.difference is not None, status="problem")


def check_golden(path: str, tokenizer: str | None) -> Iterator[Check]:
    """Compare the ids of the golden strings with those that `tokenizer card --golden` wrote."""
    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.vocab.golden import find_difference, load_golden

    golden = load_golden(path)
    loaded = Tokenizer.load(tokenizer or golden["source"])
    same = f"{loaded.source}: same ids on {len(golden['strings']):,} strings"
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
    """Check cores, memory, CPU features and shared memory."""
    cores, memory = machine.cores, machine.memory
    few = cores.quota is not None and cores.usable < cores.host and cores.usable * 4 <= cores.affinity
    yield _judge("cores", f"{cores.usable} usable ({cores.reason})", bad=few)
    status: Status = "problem" if memory.available < GB // 4 else "warning"
    found = f"{memory.available / GB:.1f} GB available ({memory.reason})"
    yield _judge("memory", found, bad=memory.available < GB, status=status)
    name, features = list_instructions()
    found = f"{name}: {', '.join(features)}" if features else "none that the core can use"
    yield _judge("cpu features", found, bad=not features)
    if SHARED_MEMORY.is_dir():
        shared = shutil.disk_usage(SHARED_MEMORY).total
        yield _judge("shared memory", f"{words.size(shared)} in {SHARED_MEMORY}", bad=shared < 64 * 1000**2)


def check_output(output: Path, data: tuple[str, ...] = ()) -> Iterator[Check]:
    """Check the free space and the locks of the directory that a job would write to."""
    home = find_existing(output)
    free, needed = shutil.disk_usage(home).free, estimate_bytes(data)
    want = f", a dataset of this input takes up to {words.size(needed)}" if needed is not None else ""
    full = free < max(ROOM, needed or 0)
    yield _judge("free space", f"{words.size(free)} free in {home}{want}", bad=full, status="problem")
    if not full:
        work = _locks_work(home)
        yield _judge("locks", f"{'work' if work else 'do not work'} in {home}", bad=not work)


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
    ObjectStore(address).check()
    yield Check("output", "ok", f"{address} can be written", "jobs that share it notice each other")


def check_urls(data: tuple[str, ...]) -> Iterator[Check]:
    """Raise if the client of a URL is missing."""
    for url in filter(is_remote, data):
        open_filesystem(url)
    yield from ()


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


def check_environment(machine: Machine, environ: Mapping[str, str]) -> Iterator[Check]:
    """Report the versions, and variables that are invalid, contradict each other or slow a job down."""
    versions = [f"python {platform.python_version()}", f"tokenmill {tokenmill.__version__}"]
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    yield Check("versions", "ok", ", ".join(versions), "a bug report needs these")
    warnings = resolve(environ=environ, machine=machine).warnings
    found = [(text, "the settings are not what they look like") for text in warnings]
    if machine.cores.ranks > 1:
        bound = [name for name in ("OMP_PROC_BIND", "OMP_PLACES") if environ.get(name, "false") != "false"]
        meaning = "all ranks of this host may use the same cores"
        found += [(f"{name}={environ[name]}", meaning) for name in bound]
    for text, meaning in found:
        yield Check("environment", "warning", text, meaning, "unset it, or correct it")
    parallel = environ.get("TOKENIZERS_PARALLELISM", "")
    if parallel.lower() in FALSE:
        meaning = f"tokenizers use one thread of {machine.cores.usable}"
        status: Status = "problem" if machine.cores.usable > 1 else "warning"
        shown = f"TOKENIZERS_PARALLELISM={parallel}"
        yield Check("environment", status, shown, meaning, "unset TOKENIZERS_PARALLELISM")
    elif not found:
        names = sorted(name for name in environ if name in VARIABLES or name.startswith(PREFIX))
        seen = ", ".join(f"{name}={environ[name]}" for name in names)
        yield Check("environment", "ok", seen or "none set", "automatic values fit this machine")
