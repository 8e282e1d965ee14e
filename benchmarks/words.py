"""SentencePiece-style BPE: a model of `mistral-common`, beside gigatoken and sentencepiece itself.

`python benchmarks/words.py [--corpora DIR] [--megabytes 8] [--turns 3] [--only en,zh]`

MB per CPU-second, one thread, flat ids, text never seen before and the same again. Writes
`benchmarks/results/words.json`.
"""

import argparse
import json
import sys
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]

import contest  # noqa: E402
import corpora  # noqa: E402
import machine  # noqa: E402
import peers  # noqa: E402

MODEL = "mistral_common/data/tokenizer.model.v1"


def model_path():
    """The model of the package, under a name that loaders know."""
    return Path(distribution("mistral-common").locate_file(MODEL))


def encoder_of(name, path):
    """One call for a list of texts."""
    if name == "tokenmill":
        from tokenmill import Tokenizer

        ours = Tokenizer.load(path)
        return lambda texts: (ours.encode_batch(texts, special="text", threads=1).ids, None)
    if name == "gigatoken":
        import gigatoken

        giga = gigatoken.Tokenizer.from_sentencepiece(path)
        return lambda texts: giga.encode_batch(texts, parallel=False)
    import sentencepiece

    reference = sentencepiece.SentencePieceProcessor(str(path))
    return lambda texts: reference.encode(texts, num_threads=1)


def plain(name, options):
    """Documents without the strings of control tokens, which gigatoken always takes for the tokens."""
    control = ("<s>", "</s>", "<unk>")
    texts = corpora.documents(name, options.corpora)
    return [text for text in texts if not any(token in text for token in control)]


def cells(options):
    """{corpus phase: (action, megabytes)} of one encoder."""
    made = {}
    texts = {name: corpora.halves(plain(name, options), options.megabytes) for name in options.only}
    contest.baseline()
    encode = encoder_of(options.worker, model_path())
    for name, (warm, fresh) in texts.items():
        encode(warm)
        for phase in ("unseen", "seen"):
            size = sum(len(text.encode()) for text in fresh) / 1e6
            made[f"{name} {phase}"] = (lambda fresh=fresh: encode(fresh), size)
    return made


def main():
    split = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=corpora.CORPORA)
    parser.add_argument("--scratch", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--megabytes", type=float, default=8)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", type=split, default=list(corpora.NAMES))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    if options.worker:
        contest.report(cells(options))
        return
    best = {}
    for name in options.only:
        arguments = ["--corpora", str(options.corpora), "--only", name, "--megabytes", str(options.megabytes)]
        names = ("tokenmill", "gigatoken", "sentencepiece")
        best |= contest.contest(__file__, names, arguments, options.turns, 1)
    report = {"machine": machine.described(), "versions": peers.versions(), "best": best}
    (options.scratch / "words.json").write_text(json.dumps(report, indent=1))
    print(f"MB per CPU-second, one thread, {report['machine']}; {report['versions']}\n")
    print(contest.table(best, "cpu"))


if __name__ == "__main__":
    main()
