"""Cold start: whole processes that load a vocabulary and encode one line, against tiktoken and HF `tokenizers`.

`python benchmarks/start.py [--turns 5] [--vocabularies cl100k,o200k]`

Each turn is a new process; the peers take turns, and the best counts. All load the same file from disk and must give
the same ids. `command` is `tokenmill encode`, `library` the same from three lines of Python. Memory is the peak of
the whole process. Prints Markdown tables and writes `benchmarks/results/start.json`.
"""

import json
import os
import subprocess
import sys

import contest
import corpora
import machine
import peers

LINE = "The mill turns: 방앗간이 돌고, 磨坊在转。"

LIBRARY = """
from tokenmill import Tokenizer
print(*Tokenizer.load({path!r}).encode({line!r}))
"""
TIKTOKEN = """
import tiktoken
from tiktoken.load import load_tiktoken_bpe
ranks = load_tiktoken_bpe({path!r})
print(*tiktoken.Encoding("x", pat_str={pattern!r}, mergeable_ranks=ranks, special_tokens={{}}).encode({line!r}))
"""
HF = """
import tokenizers
print(*tokenizers.Tokenizer.from_file({path!r}).encode({line!r}, add_special_tokens=False).ids)
"""
GIGATOKEN = """
import gigatoken
print(*gigatoken.Tokenizer.from_tiktoken({path!r}, {name!r}, {{}}).encode({line!r}).tolist())
"""
FASTOKENS = """
import fastokens
print(*fastokens.Tokenizer.from_tiktoken({path!r}, encoding={stem!r}).encode({line!r}).ids)
"""
FASTOKENS_HF = """
import fastokens
print(*fastokens.Tokenizer.from_file({path!r}).encode({line!r}, add_special_tokens=False).ids)
"""
LIBRARIES = {
    "tiktoken": {
        "tokenmill library": LIBRARY,
        "tiktoken": TIKTOKEN,
        "gigatoken": GIGATOKEN,
        "fastokens": FASTOKENS,
    },
    "tokenizer.json": {"tokenmill library": LIBRARY, "tokenizers": HF, "fastokens": FASTOKENS_HF},
}


def commands(kind, words):
    """{who: argv} for one file."""
    made = {name: [sys.executable, "-c", code.format(**words)] for name, code in LIBRARIES[kind].items()}
    command = [sys.executable, "-m", "tokenmill", "encode", "-t", words["path"]]
    return {"tokenmill command": command, **made}


# A process inherits the peak of the one that started it, so a small one stands between.
LAUNCHER = """
import json, os, sys, time
started = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
figures = [time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]
sys.stderr.write("\\n" + json.dumps([os.waitstatus_to_exitcode(status), figures]))
"""


def once(argv):
    """([wall seconds, CPU seconds, peak MB], output) of a new process; ([], its last words) if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(contest.ROOT / "python")}
    environment.pop("OPENBLAS_NUM_THREADS", None)
    launcher = [sys.executable, "-S", "-c", LAUNCHER, *argv]
    done = subprocess.run(launcher, input=LINE, capture_output=True, text=True, check=True, env=environment)
    *errors, told = [line for line in done.stderr.splitlines() if line]
    status, figures = json.loads(told)
    return ([], errors[-1]) if status else (figures, done.stdout.strip())


def best(argvs, turns):
    """{who: {wall, cpu, memory} or {failed}} of the best of several turns, once all outputs are equal."""
    found, outputs, failed = {}, {}, {}
    for _ in range(turns):
        for name, argv in argvs.items():
            if name in failed:
                continue
            figures, output = once(argv)
            if not figures:
                failed[name] = {"failed": output}
                continue
            outputs[name] = output
            known = found.setdefault(name, figures)
            found[name] = [min(pair) for pair in zip(known, figures, strict=True)]
    if len(set(outputs.values())) != 1 or any(name.startswith("tokenmill") for name in failed):
        raise SystemExit(f"the ids differ: {outputs} {failed}")
    return {n: dict(zip(("wall", "cpu", "memory"), f, strict=True)) for n, f in found.items()} | failed


def table(title, rows):
    """Markdown; the ratio is the other's wall time over ours as a library, the command's over the command's."""
    ours = rows["tokenmill library"]
    lines = [f"### {title}\n", "| process | wall s | CPU s | peak MB | x ours |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        if "failed" in row:
            lines.append(f"| {name} | cannot load it: {row['failed'][:80]} | | | |")
            continue
        ratio = row["wall"] / ours["wall"]
        lines.append(f"| {name} | {row['wall']:.3f} | {row['cpu']:.3f} | {row['memory']:.0f} | {ratio:.1f} |")
    return "\n".join(lines) + "\n"


def cases(vocabulary, path, turns):
    """{"cl100k tiktoken": rows, …} of one vocabulary, from both kinds of file."""
    peers.HuggingFace(vocabulary, path, 1)
    files = {"tiktoken": path, "tokenizer.json": path.parent / f"{vocabulary}-hf" / "tokenizer.json"}
    words = {"line": LINE, "name": vocabulary, "stem": path.stem, "pattern": peers.PATTERNS[vocabulary]}
    return {
        f"{vocabulary} {kind}": best(commands(kind, words | {"path": str(file)}), turns)
        for kind, file in files.items()
    }


def main():
    options = contest.options(__doc__, turns=5, vocabularies=tuple(corpora.VOCABULARIES))
    paths = corpora.vocabulary_files(options.scratch)
    empty = best({"python": [sys.executable, "-c", "pass"]}, options.turns)["python"]
    imported = best({"python": [sys.executable, "-c", "import tokenmill"]}, options.turns)["python"]
    seconds = imported["wall"] - empty["wall"]
    report = {"machine": machine.described(), "versions": peers.versions(), "import": seconds, "cases": {}}
    print(f"{report['machine']}; {report['versions']}\n")
    print(
        f"`import tokenmill`: {1000 * seconds:.0f} ms over an empty process of {1000 * empty['wall']:.0f} ms\n"
    )
    for vocabulary in options.vocabularies:
        for case, rows in cases(vocabulary, paths[vocabulary], options.turns).items():
            report["cases"][case] = rows
            print(table(case, rows), flush=True)
    (options.scratch / "start.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
