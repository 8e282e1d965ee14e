"""Loading o200k alone, without the interpreter's start: ours, tiktoken and HF.

    python benchmarks/load.py [--turns 3] [--vocabulary o200k]

Each turn is a new process that imports its library first; the least CPU time of the load counts. All must give the same
ids. tiktoken loads its own file; the others load the `tokenizer.json` made from it.
"""

import json
import os
import subprocess
import sys

import contest
import corpora
import peers

LINE = "The mill turns: 방앗간이 돌고, 磨坊在转。"
HEAD = "import sys, time, json; line = sys.argv[2]\n"
CODE = {
    "tokenmill": (
        "from tokenmill import Tokenizer\nimport tokenmill._core",
        "ids = Tokenizer.load(sys.argv[1]).encode(line)",
    ),
    "tiktoken": (
        "import tiktoken; from tiktoken.load import load_tiktoken_bpe",
        (
            "ids = tiktoken.Encoding('x', pat_str=sys.argv[3], special_tokens={}, "
            "mergeable_ranks=load_tiktoken_bpe(sys.argv[1])).encode(line)"
        ),
    ),
    "tokenizers": (
        "import tokenizers",
        (
            "ids = list(tokenizers.Tokenizer.from_file(sys.argv[1])"
            ".encode_batch([line], add_special_tokens=False)[0].ids)"
        ),
    ),
}


def load(python, who, argv):
    """(CPU seconds, ids) of one process."""
    imports, call = CODE[who]
    code = f"{HEAD}{imports}\nbegun = time.process_time()\n{call}\n"
    code += "print(json.dumps([time.process_time() - begun, ids]))"
    environment = os.environ | {"PYTHONPATH": str(contest.ROOT / "python")}
    done = subprocess.run(
        [python, "-c", code, *argv], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout)


def main():
    options = contest.options(__doc__, turns=3, vocabulary="o200k")
    plain = corpora.vocabulary_files(options.scratch)[options.vocabulary]
    peers.HuggingFace(options.vocabulary, plain, 1)
    spelled = [str(plain.parent / f"{options.vocabulary}-hf" / "tokenizer.json"), LINE]
    runs = {
        "tokenmill": (sys.executable, "tokenmill", spelled),
        "tiktoken": (sys.executable, "tiktoken", [str(plain), LINE, peers.PATTERNS[options.vocabulary]]),
        "tokenizers": (sys.executable, "tokenizers", spelled),
    }
    best, seen = {}, {}
    for _ in range(options.turns):
        for name, run in runs.items():
            seconds, seen[name] = load(*run)
            best[name] = min(best.get(name, seconds), seconds)
    if any(ids != seen["tokenmill"] for ids in seen.values()):
        raise SystemExit(f"the ids differ: {seen}")
    print("| load | CPU s | x ours |\n|---|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {seconds:.3f} | {seconds / best['tokenmill']:.1f} |")


if __name__ == "__main__":
    main()
