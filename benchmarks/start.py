"""Cold start: importing the package, and encoding one line, beside tiktoken and HF `tokenizers`.

`python benchmarks/start.py [--turns 7]`

Each turn is a new process; the best counts. All load the same cl100k vocabulary from disk and must give the same ids.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import corpora  # noqa: E402
import peers  # noqa: E402

LINE = "The mill turns: 방앗간이 돌고, 磨坊在转。"

OURS = """
import sys; sys.path.insert(0, {python!r})
from tokenmill import Tokenizer
print(Tokenizer.load({path!r}).encode({line!r}))
"""
TIKTOKEN = """
import tiktoken
from tiktoken.load import load_tiktoken_bpe
print(tiktoken.Encoding("cl100k", pat_str={pattern!r}, mergeable_ranks=load_tiktoken_bpe({path!r}), special_tokens={{}}).encode({line!r}))
"""
HF = """
import tokenizers
print(tokenizers.Tokenizer.from_file({hf!r}).encode({line!r}).ids)
"""
IMPORT = "import sys; sys.path.insert(0, {python!r}); import tokenmill"


def best(code, turns):
    """(seconds, output) of the fastest of several new processes."""
    seconds, output = float("inf"), ""
    for _ in range(turns):
        started = time.perf_counter()
        output = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        seconds = min(seconds, time.perf_counter() - started)
    return seconds, output.strip()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    scratch = ROOT / "benchmarks" / "results"
    scratch.mkdir(exist_ok=True)
    path = corpora.vocabulary_files(scratch)["cl100k"]
    peers.HuggingFace("cl100k", path, 1)
    words = {
        "python": str(ROOT / "python"),
        "path": str(path),
        "line": LINE,
        "pattern": peers.PATTERNS["cl100k"],
        "hf": str(path.parent / "cl100k-hf" / "tokenizer.json"),
    }
    empty, _ = best("pass", options.turns)
    imported, _ = best(IMPORT.format(**words), options.turns)
    found = {
        name: best(code.format(**words), options.turns)
        for name, code in (("tokenmill", OURS), ("tiktoken", TIKTOKEN), ("tokenizers", HF))
    }
    ids = {output for _, output in found.values()}
    if len(ids) != 1:
        sys.exit(f"the ids differ: {ids}")
    print(
        f"`import tokenmill`: {1000 * (imported - empty):.0f} ms over an empty process of {1000 * empty:.0f} ms\n"
    )
    print("| load cl100k and encode one line | seconds | ours is |\n|---|---|---|")
    ours = found["tokenmill"][0]
    for name, (seconds, _) in found.items():
        print(f"| {name} | {seconds:.3f} | {seconds / ours:.1f}x as fast |")
    (scratch / "start.json").write_text(
        json.dumps({"import": imported - empty, **{n: s for n, (s, _) in found.items()}}, indent=1)
    )


if __name__ == "__main__":
    main()
