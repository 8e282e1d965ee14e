"""Trainers side by side: wall time, CPU time and peak memory, each in a process of its own, in one run.

    python benchmarks/train.py [--corpora ../shared/corpora] [--cases en:32000 code+en+ko+zh:128000]

Everybody streams the same plain-text file, documents apart by <|endoftext|>, with GPT-2's pattern where the
trainer takes one (SentencePiece does not) and as many threads as there are cores. The best of several interleaved runs
counts; who takes longer than SLOW seconds runs once. Compare the ratios of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEPARATOR = "<|endoftext|>"
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SLOW = 20
CORPORA = ("en", "ko", "zh", "code", "en+ko+zh+code")
PEERS = {
    "tokenmill": "tokenmill",
    "gigabpe": "gigabpe",
    "ffbpe": "ffbpe",
    "gigatoken": "gigatoken",
    "rustbpe": "rustbpe",
    "huggingface": "tokenizers",
    "bpeasy": "bpeasy",
    "sentencepiece": "sentencepiece",
}


def documents(path):
    """The documents of the file, a megabyte of it in memory at a time."""
    rest = ""
    with Path(path).open(encoding="utf-8", newline="") as file:
        while chunk := file.read(1 << 20):
            *whole, rest = (rest + chunk).split(SEPARATOR)
            yield from whole
    if rest:
        yield rest


def tokenmill(path, vocab_size):
    from tokenmill.pipeline.train import run
    from tokenmill.settings.resolve import from_options

    source = {"input_format": "txt", "txt_mode": "separator", "document_separator": SEPARATOR}
    trained = run(
        from_options(job="train", vocab_size=vocab_size, special_tokens=(), **source), [path], progress=False
    )
    return {"stages": trained.summary["seconds"], "tokens": trained.summary["vocab_size"]}


def gigabpe(path, vocab_size):
    import gigabpe as peer

    vocabulary, _ = peer.train_bpe(
        [path], vocab_size, pretokenizer="bytelevel", special_tokens=[SEPARATOR], threads=os.cpu_count()
    )
    return {"tokens": len(vocabulary)}


def ffbpe(path, vocab_size):
    import ffbpe as peer

    return {"tokens": len(peer.train_bpe(documents(path), vocab_size=vocab_size).vocab)}


def gigatoken(path, vocab_size):
    import gigatoken as peer

    vocabulary, _ = peer.train_bpe(
        peer.TextFileSource([path]), vocab_size, [SEPARATOR], separator=SEPARATOR.encode()
    )
    return {"tokens": len(vocabulary)}


def rustbpe(path, vocab_size):
    import rustbpe as peer

    tokenizer = peer.Tokenizer()
    tokenizer.train_from_iterator(documents(path), vocab_size, pattern=GPT2)
    return {"tokens": tokenizer.vocab_size}


def huggingface(path, vocab_size):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(documents(path), trainer)
    return {"tokens": tokenizer.get_vocab_size()}


def bpeasy(path, vocab_size):
    import bpeasy as peer

    return {"tokens": len(peer.train_bpe(documents(path), GPT2, 1 << 20, vocab_size))}


def sentencepiece(path, vocab_size):
    import sentencepiece as peer

    lines = (line for text in documents(path) for line in text.split("\n") if line)
    with tempfile.TemporaryDirectory() as folder:
        peer.SentencePieceTrainer.train(
            sentence_iterator=lines, model_prefix=f"{folder}/m", vocab_size=vocab_size, model_type="bpe",
            byte_fallback=True, hard_vocab_limit=False, num_threads=os.cpu_count(), minloglevel=2,
            normalization_rule_name="identity", max_sentence_length=1 << 20,
        )  # fmt: skip
    return {}


def peak_bytes():
    """The peak of this process; getrusage would tell the parent's where that was higher."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def one(name, path, vocab_size):
    """Run one contender in this process and print what it cost; importing it is not counted."""
    import_module({"tokenmill": "tokenmill.pipeline.train", "huggingface": "tokenizers"}.get(name, name))
    started, before = time.perf_counter(), sum(os.times()[:2])
    figures = globals()[name](path, vocab_size)
    figures["seconds"] = round(time.perf_counter() - started, 3)
    figures["cpu"] = round(sum(os.times()[:2]) - before, 3)
    figures["peak_mb"] = round(peak_bytes() / 1e6)
    print(json.dumps(figures))


def decoded(corpora, names, folder):
    """The named corpora as one plain-text file."""
    import pyarrow as pa

    path = Path(folder) / f"{'+'.join(names)}.txt"
    with path.open("w", encoding="utf-8", newline="") as out:
        for name in names:
            with pa.CompressedInputStream(pa.OSFile(str(corpora / f"{name}.jsonl.zst")), "zstd") as file:
                for line in file.read().decode().split("\n"):
                    if line:
                        out.write(json.loads(line)["text"] + SEPARATOR)
    return path


def measure(name, path, vocab_size, timeout):
    command = [sys.executable, __file__, "--one", name, str(path), str(vocab_size)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")])),
    }
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"over {timeout} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:80]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def interleaved(names, path, vocab_size, timeout, repeat):
    """Every contender's runs, one after the other in each round."""
    runs = {name: [] for name in names}
    for _ in range(repeat):
        for name, done in runs.items():
            if not done or done[0].get("seconds", SLOW) < SLOW:
                done.append(measure(name, path, vocab_size, timeout))
    return runs


def best(done):
    """The fastest run; its memory is the most that any run took."""
    good = [run for run in done if "failed" not in run]
    if not good:
        return done[0]
    return {**min(good, key=lambda run: run["seconds"]), "peak_mb": max(run["peak_mb"] for run in good)}


def table(case, rows):
    ours = rows["tokenmill"]
    print(
        f"\n### {case}\n\n| trainer | wall s | CPU s | peak RSS MB | wall / ours | CPU / ours |\n|---|---|---|---|---|---|"
    )
    for name, row in rows.items():
        if "failed" in row:
            print(f"| {name} | {row['failed']} | | | | |")
            continue
        ratios = f"{row['seconds'] / ours['seconds']:.1f} | {row['cpu'] / ours['cpu']:.1f}"
        print(f"| {name} | {row['seconds']:.2f} | {row['cpu']:.2f} | {row['peak_mb']} | {ratios} |")
    if "stages" in ours:
        stages = ours["stages"]
        rest = ours["seconds"] - stages["counting"] - stages["merging"]
        print(
            f"\nOur stages: counting {stages['counting']:.2f} s, merging {stages['merging']:.2f} s, "
            f"the rest {rest:.2f} s"
        )


def versions():
    for package in PEERS.values():
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            yield f"{package} (this checkout)"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=ROOT.parent / "shared" / "corpora")
    parser.add_argument(
        "--cases", nargs="+", default=[f"{names}:{size}" for names in CORPORA for size in (32000, 128000)]
    )
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=900)
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    parser.add_argument("--one", nargs=3, metavar=("NAME", "FILE", "VOCAB"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args.one[0], args.one[1], int(args.one[2]))
        return
    print(f"{os.cpu_count()} cores; {', '.join(versions())}")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in args.cases:
            names, _, vocab_size = case.partition(":")
            path = decoded(args.corpora, names.split("+"), folder)
            size = path.stat().st_size / 1e6
            runs = interleaved(args.peers, path, int(vocab_size), args.timeout, args.repeat)
            rows = {name: best(done) for name, done in runs.items()}
            table(f"{names}, {size:.0f} MB, {int(vocab_size):,} tokens", rows)
            results[case] = rows
    if args.output:
        args.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
