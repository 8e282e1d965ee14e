"""Patterns of real projects: which engine scans them, and how fast the whole encoder is with each.

    python benchmarks/patterns.py [--corpora ../shared/corpora] [--megabytes 8] [--vocab-size 16000] [--only nanochat,bloom]

A tokenizer is trained with each pattern on one part of the English corpus and encodes another, which it has not seen: MB per
CPU-second, one thread, the best of seven. Where tokens span words, the vocabulary is made in two stages, as SuperBPE's is: five
eighths with the pattern of stage 1, the rest with the pattern itself. "regex" is the same pattern on the regex engine alone, which finds the pieces but
does not encode them: an upper bound of what encoding with it can reach. A run of all patterns writes `results/patterns.csv`; the
columns "before" are figures of commit 04f1702 and stay as they are.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import time
from pathlib import Path

import corpora
from tokenmill import Tokenizer, _core, extend, train_from_iterator

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "benchmarks" / "results" / "patterns.csv"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CL100K = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SHORT}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SHORT}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
BYTE_LEVEL = {**BYTES, "use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": True}


def split(regex, behavior="Isolated"):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": False}


def splits(*regexes):
    return [*map(split, regexes), BYTES]


# Project -> the steps of its pre-tokenizer, after llama.cpp's `llama-vocab.cpp`; nanochat and SuperBPE after their own repositories.
PATTERNS = {
    "OLMo, ModernBERT, EXAONE-4, Granite-Docling": [BYTE_LEVEL],
    "StarCoder2, SmolLM, EXAONE-3": [DIGITS, BYTE_LEVEL],
    "Llama-3, Falcon-3": splits(CL100K),
    "Qwen2, StableLM-2": splits(CL100K.replace("{1,3}", "")),
    "GPT-4o, Kanana-2": splits(O200K),
    "nanochat": splits(
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    "Bailing-MoE": splits(
        r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    "Granite-Embedding": splits(
        r"[^\r\n\p{L}\p{N}]?((?=[\p{L}\p{M}])([^a-z]))*((?=[\p{L}\p{M}])([^A-Z]))+(?:'[sS]|'[tT])?"
        r"|[^\r\n\p{L}\p{N}]?((?=[\p{L}\p{M}])([^a-z]))+((?=[\p{L}\p{M}])([^A-Z]))*(?:'[sS]|'[tT])?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "SuperBPE, stage 1": splits(O200K.replace(SHORT + "?", "")),
    "SuperBPE, stage 2": splits(r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)"),
    "GPT-2 with single digits (own)": splits(GPT2.replace(r"\p{N}+", r"\p{N}", 1)),
    "words (own)": splits(r"\w+|\s+|[^\w\s]+"),
    "Whitespace (Hugging Face)": [{"type": "Whitespace"}, BYTES],
    "Falcon": [
        {"type": "Punctuation", "behavior": "Contiguous"},
        BYTE_LEVEL,
        {"type": "Digits", "individual_digits": False},
        split("[0-9][0-9][0-9]"),
    ],
    "BLOOM": splits(r" ?[^(\s|[.,!?…。，、।۔،])]+"),
    "Viking": splits(r" ?[^(\s|[.,!?…。，、।۔،])]+", r"\p{N}"),
    "DeepSeek-Coder": splits(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"),
    "DeepSeek-V3": splits(
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    ),
    "MiniCPM-5": splits(r"\p{N}{1,3}", CL100K.replace("{1,3}", "+")),
    "Jais-2": splits(
        CL100K.replace(
            r"|\s+(?!\S)|\s+", "".join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4))
        )
        + r"|\s{1,2}(?!\S)|\s{1}"
    ),
    "K-EXAONE": splits(
        SHORT + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
        r"|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    "Seed-Coder": splits(
        SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "Youtu": splits(
        "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
        O200K.replace("{1,3}", ""),
    ),
    "SuperBPE, published": splits(r"\p{N}+", r"(?=(\d{3})+(?!\d))"),
}


# Those whose pieces span words.
SPANNING = {"SuperBPE, stage 2", "SuperBPE, published", "K-EXAONE"}


def best(work, turns=7):
    """The least CPU time of several turns; `work` returns what is to be timed."""
    times = []
    for _ in range(turns):
        run = work()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def measure(steps, vocabulary, texts, size):
    pre_tokenizer = json.dumps({"type": "Sequence", "pretokenizers": steps})
    whole = {**vocabulary, "pre_tokenizer": json.loads(pre_tokenizer)}
    path = Path(args.scratch) / "tokenizer.json"
    path.write_text(json.dumps(whole))

    def fresh():
        tokenizer = Tokenizer.load(path)
        tokenizer.encode_batch(texts[0], threads=1, special="text", add_special_tokens=False)
        return lambda: tokenizer.encode_batch(texts[1], threads=1, special="text", add_special_tokens=False)

    tokenizer = Tokenizer.load(path)
    engine = tokenizer.strategy.reason.rpartition(" ")[2]
    engine = engine if engine in {"automaton", "regex"} else "blocks"
    seconds = best(fresh)
    sample = "".join(texts[1])[:1_000_000]
    start = time.process_time()
    _core.scan_pieces(pre_tokenizer, sample, general=True)
    regex = len(sample.encode()) / 1e6 / (time.process_time() - start)
    return engine, size / seconds, regex


def main():
    documents = corpora.documents("en", args.corpora)
    texts, size = ([], []), [0, 0]
    for i, text in enumerate(documents):
        if size[i % 2] < args.megabytes * 1e6:
            texts[i % 2].append(text)
            size[i % 2] += len(text.encode())
    print(
        "| pattern | engine | MB per CPU-second | regex engine, pieces only | training, CPU s |\n|---|---|---|---|---|"
    )
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = {row["pattern"]: row for row in csv.DictReader(file)}
    for name, steps in PATTERNS.items():
        if args.only and name.split(",")[0].lower() not in args.only.lower().split(","):
            continue
        vocabulary, training = trained(texts[0], name)
        engine, speed, regex = measure(steps, vocabulary, texts, size[1] / 1e6)
        print(f"| {name} | {engine} | {speed:.0f} | {regex:.0f} | {training:.2f} |", flush=True)
        rows[name] |= {"engine": engine, "MB/s": f"{speed:.0f}"}
    if not args.only:
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["pattern", "engine before", "MB/s before", "engine", "MB/s"])
            writer.writeheader()
            writer.writerows(rows[name] for name in PATTERNS)


def trained(texts, name):
    """A `tokenizer.json` trained with the pattern; a chain of several splits takes the vocabulary of GPT-2's pattern."""
    steps, first = PATTERNS[name], args.vocab_size
    pattern = steps[0]["pattern"]["Regex"] if len(steps) == 2 and steps[0]["type"] == "Split" else "gpt2"
    if name in SPANNING:
        first, pattern = first * 5 // 8, PATTERNS["SuperBPE, stage 1"][0]["pattern"]["Regex"]
    path = Path(args.scratch) / "trained"
    start = time.process_time()
    tokenizer = train_from_iterator(texts, first, pattern=pattern, progress=False)
    shutil.rmtree(path, ignore_errors=True)
    tokenizer.save(path)
    data = json.loads((path / "tokenizer.json").read_text(encoding="utf-8"))
    if name in SPANNING:
        data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
        (path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
        extend(path, iter(texts), add=args.vocab_size - first, output=path / "longer")
        data = json.loads((path / "longer" / "tokenizer.json").read_text(encoding="utf-8"))
    return data, time.process_time() - start


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=ROOT.parent / "shared" / "corpora")
    parser.add_argument("--megabytes", type=float, default=8)
    parser.add_argument("--vocab-size", type=int, default=16_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--scratch", type=Path, default=ROOT / "benchmarks" / "results")
    args = parser.parse_args()
    args.scratch.mkdir(parents=True, exist_ok=True)
    main()
