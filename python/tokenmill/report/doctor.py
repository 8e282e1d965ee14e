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
# Compressed text grows about fourfold. A token covers about 3.5 bytes and takes at most 4, plus indexes.
EXPANSION = 4.0
BYTES_PER_TEXT_BYTE = 4 / 3.5 * 1.05
ROOM = 100 * 1000**2
PACKAGES = ("numpy", "pyarrow", "tokenizers", "transformers", "datasets", "ray", "torch")


@dataclass(frozen=True)
class Check:
    """The result of one check; a check that is not ok has a fix."""

    name: str
    status: Status
    found: str
    fix: str | None = None


def _judge(name: str, found: str, fix: str, *, bad: bool, status: Status = "warning") -> Check:
    return Check(name, status, found, fix) if bad else Check(name, "ok", found)


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
    parts = {
        "tokenizer": check_tokenizer(tokenizer, data) if tokenizer is not None else (),
        "golden ids": check_golden(golden, tokenizer) if golden is not None else (),
        "machine": check_machine(machine),
        "output": check_output(output or str(Path.cwd()), data),
        "environment": check_environment(machine, environ),
        "data": check_data(data),
    }
    checks: list[Check] = []
    for name, part in parts.items():
        try:
            checks += part
        except (OSError, TokenmillError) as error:
            fix = getattr(error, "remedy", "correct the path, the address or the value that is named")
            checks.append(Check(name, "problem", str(error), fix))
    return checks


def check_tokenizer(tokenizer: str, data: tuple[str, ...] = ()) -> Iterator[Check]:
    """Report the engine of a tokenizer, and compare its ids with Hugging Face's on `data` if possible."""
    from tokenmill.tokenizer.parity import check_parity
    from tokenmill.tokenizer.tokenizer import Tokenizer

    loaded = Tokenizer.load(tokenizer)
    yield _judge(
        "tokenizer",
        f"{loaded.source}: {loaded.vocab_size} tokens, {loaded.strategy}",
        "a Python tokenizer is 10 to 50 times slower: load its fast version (use_fast=True), or train one: "
        "tokenmill train INPUT --vocab-size 32000 --output DIR",
        bad=loaded.strategy.name == "python",
        status="problem",
    )
    own: list[str] = []
    if data:
        with suppress(TokenmillError):  # `check_data` reports inputs that are missing
            files = discover(SourceConfig(inputs=data))
            source, _ = infer_fields(SourceConfig(inputs=data), files)
            own = read_first_documents(files, source).texts
    verdict = check_parity(loaded, own or SAMPLES)
    if verdict.skipped:
        reason = verdict.skipped.replace("\n", " ")
        fix = "pip install 'tokenmill[hf]', or compare the ids yourself"
        yield _judge("parity", f"not compared: {reason}", fix, bad=loaded.engine.native)
        return
    same = f"same ids on {verdict.documents} {'of your documents' if own else 'built-in documents'}"
    fix = "report this line; until it is fixed, use --strategy huggingface"
    bad = verdict.difference is not None
    yield _judge("parity", verdict.difference or same, fix, bad=bad, status="problem")


def check_golden(path: str, tokenizer: str | None) -> Iterator[Check]:
    """Compare the ids of the golden strings with those that `tokenizer card --golden` wrote."""
    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.vocab.golden import find_difference, load_golden

    golden = load_golden(path)
    loaded = Tokenizer.load(tokenizer or golden["source"])
    found = find_difference(loaded, golden)
    same = f"{loaded.source}: same ids on {len(golden['strings']):,} strings"
    fix = "install the versions that wrote the file, or prepare the data again"
    yield _judge("golden ids", found or same, fix, bad=found is not None, status="problem")


def check_machine(machine: Machine) -> Iterator[Check]:
    """Check cores, memory and CPU features."""
    cores, memory = machine.cores, machine.memory
    few = cores.quota is not None and cores.usable < cores.host and cores.usable * 4 <= cores.affinity
    found = f"{cores.usable} usable ({cores.reason})"
    yield _judge("cores", found, "raise the container's CPU limit (docker run --cpus N)", bad=few)
    found = f"{memory.available / GB:.1f} GB available ({memory.reason})"
    fix = "a job needs 250 MB to 1 GB: free memory, or raise the limit (docker run --memory 2g)"
    status: Status = "problem" if memory.available < GB // 4 else "warning"
    yield _judge("memory", found, fix, bad=memory.available < GB, status=status)
    name, features = list_instructions()
    found = f"{name}: {', '.join(features)}" if features else "none that the core can use"
    fix = "half the speed: use a CPU with AVX2 or NEON, expose it to the virtual machine, unset TOKENMILL_CPU"
    yield _judge("cpu features", found, fix, bad=not features)


def check_output(output: str, data: tuple[str, ...] = ()) -> Iterator[Check]:
    """Check that the store can be written, or the free space of the directory."""
    if is_remote(output):
        ObjectStore(output).check()
        yield Check("output", "ok", f"{output} can be written")
        return
    home = find_existing(Path(output))
    free, needed = shutil.disk_usage(home).free, estimate_bytes(data)
    want = f", a dataset of this input takes up to {words.size(needed)}" if needed else ""
    device = home.stat().st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    kinds = [
        file.read_text() for file in (*block.glob("queue/rotational"), *block.glob("../queue/rotational"))
    ]
    disk = {"0": ", an SSD", "1": ", a rotating or virtual disk"}.get("".join(kinds)[:1], "")
    found, fix = (
        f"{words.size(free)} free in {home}{disk}{want}",
        "free space (df -h), or choose another --output",
    )
    yield _judge("free space", found, fix, bad=free < max(ROOM, needed), status="problem")


def check_data(data: tuple[str, ...]) -> Iterator[Check]:
    """Raise if a path does not exist or the client of a URL is missing."""
    for name in data:
        if is_remote(name):
            open_filesystem(name)
            yield Check("data", "ok", f"the client for {name} is installed")
        else:
            count = len(discover(SourceConfig(inputs=(name,))))
            yield Check("data", "ok", f"{name}: {words.amount(count, 'file')}")


def estimate_bytes(data: tuple[str, ...]) -> int:
    """Return the bytes that a dataset of these inputs may take, or 0 if unknown."""
    try:
        files = discover(SourceConfig(inputs=data)) if data else []
    except TokenmillError:
        return 0
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
    yield Check("versions", "ok", ", ".join(versions))
    names = sorted(name for name in environ if name in VARIABLES or name.startswith(PREFIX))
    yield Check("environment", "ok", ", ".join(f"{name}={environ[name]}" for name in names) or "none set")
    for text in resolve(environ=environ, machine=machine).warnings:
        yield Check("environment", "warning", text, "unset it, or correct it")
    parallel = environ.get("TOKENIZERS_PARALLELISM", "")
    if parallel.lower() in FALSE:
        found = f"TOKENIZERS_PARALLELISM={parallel}: tokenizers use one thread of {machine.cores.usable}"
        status: Status = "problem" if machine.cores.usable > 1 else "warning"
        yield Check("environment", status, found, "unset TOKENIZERS_PARALLELISM")
