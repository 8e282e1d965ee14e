"""`tokenmill doctor`: check tokenizer, machine, output directory and set-up."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

import tokenmill
from tokenmill.base import disk, words
from tokenmill.base.durable import read_progress
from tokenmill.base.machine import FALSE, Machine, list_instructions, measure
from tokenmill.base.platform import is_alive, open_file_limit
from tokenmill.base.words import find_version
from tokenmill.errors import ConfigError, MissingExtraError, TokenmillError
from tokenmill.settings.resolve import PREFIX, VARIABLES, resolve
from tokenmill.sources.stores import check_keeper, is_remote, open_filesystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tokenmill.base.machine import Machine
    from tokenmill.tokenizer.tokenizer import Tokenizer


Status = Literal["ok", "warning", "problem"]
ORDER: tuple[Status, ...] = ("ok", "warning", "problem")


class Check(BaseModel):
    """One result: what was examined, its status, what was found, what it means and how to fix it."""

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
        """Return 1 if there is a problem."""
        return int(self.status == "problem")


def _check(name: str, status: Status, found: str, meaning: str, fix: str | None = None) -> Check:
    return Check(name=name, status=status, found=found, meaning=meaning, fix=fix)


def examine(
    tokenizer: str | None = None,
    data: tuple[str, ...] = (),
    output: str | None = None,
    environ: Mapping[str, str] = os.environ,
    machine: Machine | None = None,
) -> Report:
    """Check this machine and, if given, a tokenizer, its data and the output directory."""
    machine = machine or measure(environ)
    place = Path(output) if output is not None and not is_remote(output) else Path.cwd()
    parts: list[tuple[str, Callable[[], Iterable[Check]]]] = [
        ("tokenizer", lambda: check_tokenizer(tokenizer, data)),
        ("machine", lambda: check_machine(machine)),
        ("output", lambda: check_output(place, data)),
        ("set-up", lambda: check_setup(machine, environ, data, output)),
    ]
    checks = tuple(check for name, part in parts for check in _guard(name, part))
    worst: Status = max((check.status for check in checks), key=ORDER.index, default="ok")
    return Report(status=worst, checks=checks)


def _guard(name: str, part: Callable[[], Iterable[Check]]) -> list[Check]:
    """Return the checks of one part; a part that cannot be checked is a problem."""
    try:
        return list(part())
    except OSError as error:
        found, fix = f"{type(error).__name__}: {error}", "check the path and its permissions"
        return [_check(name, "problem", found, "this part could not be checked", fix)]


# Compared when no data is given: letters, digits, spaces, code, three scripts, marks and an emoji.
SAMPLES = (
    "Hello, world! It's 2026; we've 1234567 tokens & counting...\n\n  Done.",
    "def f(x):\n    return {'a': [1, 2.5e-3], \"b\": x != None}  # \tcomment\r\n",
    "안녕하세요. 토크나이저를 검증합니다! 你好世界。こんにちは、カタカナ ー。",
    "naïve café — Ελληνικά, Русский, العربية, हिन्दी, ไทย 🙂👩‍💻 x²",
)
TRAIN = "tokenmill train INPUT --vocab-size 32000 --output DIR"


def check_tokenizer(tokenizer: str | None, data: tuple[str, ...] = ()) -> Iterator[Check]:
    """Check the tokenizer if one is given."""
    if tokenizer is None:
        return
    from tokenmill.tokenizer.tokenizer import Tokenizer

    try:
        loaded = Tokenizer.load(tokenizer)
    except TokenmillError as error:
        name, fix = "tokenizer", f"check the path, or train one: {TRAIN}"
        if isinstance(error, MissingExtraError):
            name, fix = "extras", "pip install 'tokenmill[hf]'"
        yield _check(name, "problem", str(error), f"{tokenizer} cannot be loaded", fix)
        return
    yield check_engine(loaded)
    yield check_ids(loaded, data)


def check_engine(tokenizer: Tokenizer) -> Check:
    """Report which engine runs the tokenizer."""
    name = tokenizer.strategy.name
    shown = f"{tokenizer.source}: {tokenizer.vocab_size} tokens, {tokenizer.strategy}"
    if name == "python":
        meaning = "a Python tokenizer: some 10 to 50 times slower than a fast one"
        fix = f"load its fast version (use_fast=True), or train one: {TRAIN}"
        return _check("tokenizer", "problem", shown, meaning, fix)
    meaning = "the fastest engine runs it"
    if name == "huggingface":
        meaning = "Hugging Face's Rust engine runs it; the native one does not support it"
    return _check("tokenizer", "ok", shown, meaning)


def check_ids(tokenizer: Tokenizer, data: tuple[str, ...]) -> Check:
    """Compare the ids of the native engine with Hugging Face's, on the given documents if possible."""
    from tokenmill.tokenizer.parity import check_parity

    own = read_sample(data)
    verdict = check_parity(tokenizer, own or SAMPLES)
    if verdict.skipped:
        meaning = verdict.skipped.replace("\n", " ")
        if not tokenizer.engine.needs_parity_check:
            return _check("parity", "ok", "not compared", meaning)
        fix = "pip install 'tokenizers<1', or compare the ids yourself"
        return _check("parity", "warning", "not compared", meaning, fix)
    whose = "of your documents" if own else "built-in documents"
    if verdict.difference is None:
        found = f"same ids on {verdict.documents} {whose}"
        return _check("parity", "ok", found, "native can be trusted with this tokenizer")
    meaning = "native and Hugging Face differ; a job would fall back to huggingface"
    fix = "report it with this line; until then: --strategy huggingface"
    return _check("parity", "problem", verdict.difference, meaning, fix)


def read_sample(data: tuple[str, ...]) -> list[str]:
    """Return the first documents of the inputs, or none if they cannot be read."""
    if not data:
        return []
    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources import discover, infer_fields
    from tokenmill.sources.read import read_first_documents

    try:
        files = discover(SourceConfig(inputs=data))
        source, _ = infer_fields(SourceConfig(inputs=data), files)
        return read_first_documents(files, source).texts
    except TokenmillError:
        return []


GB = 1000**3
FEW_FILES = 1024
SMALL_SHARED_MEMORY = 64 * 1000**2


def check_machine(machine: Machine, shared_memory: Path = Path("/dev/shm")) -> Iterator[Check]:  # noqa: S108
    """Check cores, memory, CPU features and limits."""
    yield check_cores(machine)
    yield check_memory(machine)
    yield check_cpu_features()
    yield check_open_files(open_file_limit())
    if shared_memory.is_dir():
        yield check_shared_memory(shutil.disk_usage(shared_memory).total)


def check_cores(machine: Machine) -> Check:
    """Report how many cores a job will use."""
    found = machine.cores
    shown = f"{found.usable} usable ({found.reason})"
    limited = found.usable < found.host and found.quota is not None
    if not limited or found.usable * 4 > found.affinity:
        return _check("cores", "ok", shown, "a job uses this many threads")
    fix = "raise the container's CPU limit (docker run --cpus N)"
    return _check("cores", "warning", shown, "a quota leaves a quarter of the cores or less", fix)


def check_memory(machine: Machine) -> Check:
    """Report the available memory."""
    found = machine.memory
    shown = f"{found.available / GB:.1f} GB available ({found.reason})"
    if found.available < GB // 4:
        fix = "free memory, or raise the container's limit (docker run --memory 2g)"
        return _check("memory", "problem", shown, "a job needs about 250 MB and may be killed", fix)
    if found.available < GB:
        fix = "raise the container's limit (docker run --memory 2g)"
        return _check("memory", "warning", shown, "batches will be small", fix)
    return _check("memory", "ok", shown, "enough for a job")


def check_cpu_features(used: tuple[str, list[str]] | None = None) -> Check:
    """Report the vector instructions in use."""
    name, features = list_instructions() if used is None else used
    if features:
        return _check("cpu features", "ok", ", ".join(features), f"{name} code in use")
    found, meaning = "none that the core can use", "portable code in use, at about half the speed"
    fix = "use a CPU with AVX2 or NEON, give the virtual machine the host's CPU, or unset TOKENMILL_CPU"
    return _check("cpu features", "warning", found, meaning, fix)


def check_open_files(limit: int) -> Check:
    """Report the limit of open files."""
    found = f"limit {limit}" if limit >= 0 else "no limit"
    if 0 <= limit < FEW_FILES:
        return _check(
            "open files", "warning", found, "a dataset of many shards may not open", "ulimit -n 65536"
        )
    return _check("open files", "ok", found, "enough for thousands of shards")


def check_shared_memory(total: int) -> Check:
    """Report the size of the shared memory that data loaders use."""
    found = f"{words.size(total)} in /dev/shm"
    if total >= SMALL_SHARED_MEMORY:
        return _check("shared memory", "ok", found, "enough for data loader workers")
    meaning = "data loader workers may die with a bus error"
    return _check("shared memory", "warning", found, meaning, "docker run --shm-size 1g")


# Compressed text grows about fourfold. A token covers about 3.5 bytes and takes at most 4, plus indexes.
EXPANSION = 4.0
BYTES_PER_TEXT_BYTE = 4 / 3.5 * 1.05
ROOM = 100 * 1000**2


def check_output(output: Path, data: tuple[str, ...] = ()) -> Iterator[Check]:
    """Check the directory that a job would write to."""
    home = disk.find_existing(output)
    in_the_way = next(
        (path for path in (output, *output.parents) if path.exists() and not path.is_dir()), None
    )
    if in_the_way is not None:
        found, meaning = f"{in_the_way} is a file", "a job needs a directory there and would fail at once"
        yield _check("output", "problem", found, meaning, "choose another --output")
        return
    if not os.access(home, os.W_OK | os.X_OK):
        fix = f"chmod u+wx {home}, or choose another --output"
        found, meaning = f"{home} cannot be written", "a job would fail at its first shard"
        yield _check("output", "problem", found, meaning, fix)
        return
    space = check_free_space(home, estimate_bytes(data))
    yield space
    if space.status == "problem":
        return
    yield check_locks(home)
    yield check_leftovers(output)


def estimate_bytes(data: tuple[str, ...]) -> int | None:
    """Return the bytes that a dataset of these inputs may take, or None if unknown."""
    if not data:
        return None
    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources import cut_ranges, discover

    try:
        files = discover(SourceConfig(inputs=data))
    except TokenmillError:
        return None
    # One range of a Parquet file has the size of its uncompressed columns.
    sizes = [(file, sum(part.size for part in cut_ranges(file, 1 << 62))) for file in files]
    text = sum(size * (EXPANSION if file.compression else 1) for file, size in sizes)
    return int(text * BYTES_PER_TEXT_BYTE)


def check_free_space(home: Path, needed: int | None) -> Check:
    """Compare the free space with the estimate."""
    free = disk.free_bytes(home)
    want = f", a dataset of this input takes up to {words.size(needed)}" if needed is not None else ""
    found = f"{words.size(free)} free in {home}{want}"
    if free >= max(ROOM, needed or 0):
        return _check("free space", "ok", found, "enough room")
    fix = f"free space (df -h {home}), or choose another --output"
    return _check("free space", "problem", found, "the disk would fill up before the end", fix)


def check_locks(home: Path) -> Check:
    """Check that file locks work on this file system."""
    kind = disk.find_filesystem(home)
    if disk.locks_work(home):
        return _check("locks", "ok", f"work on {kind}", "two jobs with one output notice each other")
    meaning = "two jobs with one output may do the same work twice; the result is still right"
    fix = "mount it with locks (NFS: option local_lock=none), or start one job at a time"
    return _check("locks", "warning", f"do not work on {kind}", meaning, fix)


def check_leftovers(output: Path) -> Check:
    """Report unfinished files and a run whose process is gone."""
    dead = [path for path in output.rglob(".tmp-*") if _owner_is_dead(path.name)] if output.is_dir() else []
    run = _find_dead_run(output)
    if not dead and run is None:
        return _check("leftovers", "ok", "none", "no dead run left anything here")
    size = sum(path.stat().st_size for path in dead if path.exists())
    left = [f"{len(dead)} unfinished files ({words.size(size)})"] if dead else []
    left += [f"a run of process {run} that died"] if run is not None else []
    meaning = "a run was killed here; its output does not count until it is finished"
    fix = "run the same tokenmill prepare again: it continues where it stopped and cleans up"
    return _check("leftovers", "warning", ", ".join(left), meaning, fix)


def _owner_is_dead(name: str) -> bool:
    """True if `.tmp-host-123-9f3c-shard.bin` belongs to this host and process 123 is gone."""
    rest = name.removeprefix(f".tmp-{platform.node()}-")
    process = rest.split("-", 1)[0]
    return rest != name and process.isdecimal() and not is_alive(int(process))


def _find_dead_run(output: Path) -> int | None:
    progress = read_progress(output) or {}
    process, here = progress.get("pid"), progress.get("host") == platform.node()
    if progress.get("state") != "running" or not here or not isinstance(process, int):
        return None
    return None if is_alive(process) else process


PACKAGES = ("numpy", "pyarrow", "tokenizers", "transformers", "datasets", "ray", "torch")


def check_setup(
    machine: Machine, environ: Mapping[str, str], data: Sequence[str] = (), output: str | None = None
) -> Iterator[Check]:
    """Check environment, versions and optional packages."""
    yield from check_variables(machine, environ)
    yield check_versions()
    yield from check_extras(data, output)


def check_variables(machine: Machine, environ: Mapping[str, str]) -> Iterator[Check]:
    """Report variables that are invalid, contradict each other or slow a job down."""
    seen = [
        f"{name}={environ[name]}" for name in sorted(environ) if name in VARIABLES or name.startswith(PREFIX)
    ]
    try:
        warnings = resolve(environ=environ, machine=machine).warnings
    except ConfigError as error:
        yield _check(
            "environment", "problem", str(error), "a job would fail at once", "unset it, or correct it"
        )
        return
    troubled = False
    if environ.get("TOKENIZERS_PARALLELISM", "").lower() in FALSE:
        troubled = True
        yield _check(
            "environment",
            "problem" if machine.cores.usable > 1 else "warning",
            f"TOKENIZERS_PARALLELISM={environ['TOKENIZERS_PARALLELISM']}",
            f"tokenizers use one thread of {machine.cores.usable}",
            "unset TOKENIZERS_PARALLELISM",
        )
    for warning in warnings:
        troubled = True
        meaning = "the settings are not what they look like"
        yield _check("environment", "warning", warning, meaning, 'eval "$(tokenmill config env)"')
    if not troubled:
        yield _check("environment", "ok", ", ".join(seen) or "none set", "automatic values fit this machine")


def check_versions() -> Check:
    """Report the versions that a bug report needs."""
    parts = [f"python {platform.python_version()}", f"tokenmill {tokenmill.__version__}"]
    parts += [f"{package} {version}" for package in PACKAGES if (version := find_version(package))]
    return _check("versions", "ok", ", ".join(parts), "a bug report needs these")


def check_extras(data: Sequence[str], output: str | None = None) -> Iterator[Check]:
    """Report missing packages that these URLs need."""
    places: list[tuple[str, Callable[[str], object]]] = [(url, open_filesystem) for url in data]
    if output is not None:
        places.append((output, check_keeper))
    for place, check in places:
        if not is_remote(place):
            continue
        try:
            check(place)
        except TokenmillError as error:
            fix = (
                error.remedy
                if isinstance(error, MissingExtraError)
                else "use a path, or a URL of a supported kind"
            )
            yield _check("extras", "problem", str(error), f"{place} cannot be opened", fix)
