"""Training at size: 10 GB of text to 200,000 tokens within 8 GB, and what decompression costs counting.

    python benchmarks/train_large.py [--gigabytes 10] [--vocab-size 200000] [--budget 6GB] [--scratch DIR]

The corpora are written over and over, each time with other changes: one letter in `EVERY`, of any script, becomes
another one, so that new text brings new words as it does in life. Every part is a JSON Lines file. `plain` and
`zstd` count the first `--compare` of them alone, as they are and compressed. The text is deleted at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import corpora
import machine

ROOT = Path(__file__).resolve().parent.parent
# So few letters are changed that most words stay what they are: 0.9 % of letters, some 4 % of words.
EVERY = 110
# The key of a record, which is left alone; an escape is not longer than this either.
KEY = len('{"text": "')


def lines_of(names, directory):
    """Return the corpora as one block of JSON Lines, and the offsets of bytes that may change."""
    texts = [text for name in names for text in corpora.documents(name, directory)]
    lines = b"".join(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n" for text in texts)
    data = np.frombuffer(lines, np.uint8)
    fixed = np.zeros(len(data), bool)
    for byte in (ord("\n"), ord("\\")):
        for place in range(KEY + 1):
            after = np.flatnonzero(data[: len(data) - place] == byte) + place
            fixed[after] = True
    fixed[:KEY] = True
    letters = (data >= ord("a")) & (data <= ord("z")) & ~fixed
    # The third byte of a character of three: any other is a character too.
    led = np.zeros(len(data), bool)
    led[2:] = (data[:-2] >= 0xE1) & (data[:-2] <= 0xEC)
    return data, np.flatnonzero(letters), np.flatnonzero(led & ~fixed)


def write_part(path, base, number):
    """One more copy with changes of its own."""
    data, letters, thirds = base
    random = np.random.default_rng(number)
    changed = data.copy()
    for places, first, count in ((letters, ord("a"), 26), (thirds, 0x80, 64)):
        chosen = random.choice(places, len(places) // EVERY, replace=False)
        changed[chosen] = first + random.integers(0, count, len(chosen), np.uint8)
    changed.tofile(path)


def compress(path):
    target = path.with_suffix(".jsonl.zst")
    with pa.CompressedOutputStream(str(target), "zstd") as out, path.open("rb") as file:
        shutil.copyfileobj(file, out, 1 << 20)
    return target


# A process inherits the peak of the one that started it, so a small one stands between.
LAUNCHER = """
import json, os, sys, time
started = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
told = {"status": os.waitstatus_to_exitcode(status), "wall": time.perf_counter() - started,
        "cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss * 1024}
sys.stderr.write("\\n" + json.dumps(told))
"""


def train(files, folder, vocab_size, budget):
    """What `tokenmill train` says, and what the process took."""
    command = [sys.executable, "-m", "tokenmill", "train", *map(str, files), "--vocab-size", str(vocab_size)]
    command += ["--memory-budget", budget, "--output", str(folder), "--json", "--pattern", "cl100k"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "TMPDIR": str(folder.parent)}
    argv = [sys.executable, "-S", "-c", LAUNCHER, *command]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    *said, told = done.stderr.splitlines()
    figures = json.loads(told)
    if figures["status"]:
        raise SystemExit("\n".join(said[-20:]))
    return {**figures, **json.loads(done.stdout)}


def row(label, told, size):
    seconds = told["seconds"]
    stages = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    print(
        f"| {label} | {size / 1e9:.2f} | {told['wall']:.1f} | {told['cpu']:.1f} | {told['memory'] / 1e9:.2f} | "
        f"{stages} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=corpora.CORPORA)
    parser.add_argument("--names", nargs="+", default=list(corpora.NAMES))
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--compare", type=int, default=4)
    parser.add_argument("--vocab-size", type=int, default=200_000)
    parser.add_argument("--budget", default="6GB")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    print(machine.described(), "\n")
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        measure(Path(folder), options)


def measure(folder, options):
    base = lines_of(options.names, options.corpora)
    parts = []
    started = time.perf_counter()
    while sum(part.stat().st_size for part in parts) < options.gigabytes * 1e9:
        parts.append(folder / f"part-{len(parts):03}.jsonl")
        write_part(parts[-1], base, len(parts))
    print(f"text written in {time.perf_counter() - started:.0f} s\n")
    del base
    print("| what | GB | wall s | CPU s | peak GB | seconds of stages |\n|---|---|---|---|---|---|")
    sizes = [part.stat().st_size for part in parts]
    some, size = parts[: options.compare], sum(sizes[: options.compare])
    packed = [compress(part) for part in some]
    row("plain, 1,000 tokens", train(some, folder / "plain", 1000, options.budget), size)
    row("zstd, 1,000 tokens", train(packed, folder / "zstd", 1000, options.budget), size)
    told = train(parts, folder / "all", options.vocab_size, options.budget)
    row(f"all, {options.vocab_size:,} tokens", told, sum(sizes))
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
