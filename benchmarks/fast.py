"""WordPiece through the `huggingface` engine against Hugging Face's own call, in `tokenizers` 0.x and 1.x.

    python benchmarks/fast.py [--turns 5] [--megabytes 4]

A BERT tokenizer (BertNormalizer, BertPreTokenizer, WordPiece of 30,000) is trained once, on English and Chinese. Under each
version one process encodes the same documents both ways in turns: lists against `[e.ids for e in encode_batch(…)]`,
flat arrays against that with `ids_array` joined. Ids are compared first; the least CPU time of the turns counts, and the
ratio is theirs over ours.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import contest
import corpora

CASES = ("en", "zh")


def trained(path, directory):
    """The tokenizer.json, made by `tokenizers` 0.x, since 1.x has no trainer."""
    if not path.exists():
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        trainer = trainers.WordPieceTrainer(vocab_size=30_000, special_tokens=special, show_progress=False)
        texts = [text for name in CASES for text in corpora.halves(corpora.documents(name, directory), 3)[0]]
        made.train_from_iterator(texts, trainer)
        made.save(str(path))
    return path


def ours(path):
    from tokenmill import Tokenizer

    tokenizer = Tokenizer.load(path)
    if tokenizer.strategy.name != "huggingface":
        raise SystemExit(f"not `fast` but {tokenizer.strategy}")
    return tokenizer


def theirs(path):
    """Hugging Face's own object, by the call that gives ids and nothing more."""
    import tokenizers

    made = tokenizers.Tokenizer.from_file(str(path))
    if int(tokenizers.__version__.split(".")[0]) >= 1:
        return lambda texts: made.encode_batch(texts, add_special_tokens=False)
    return lambda texts: made.encode_batch_fast(texts, add_special_tokens=False)


def measure(path, directory, turns, megabytes):
    """{case: {lists, flat}} of ratios, printed as JSON."""
    import numpy as np
    import tokenizers

    tokenizer, encode = ours(path), theirs(path)

    def joined(texts):
        return np.concatenate([np.asarray(getattr(e, "ids_array", e.ids), np.uint32) for e in encode(texts)])

    pairs = {
        "lists": (tokenizer.encode_lists, lambda texts: [list(e.ids) for e in encode(texts)]),
        "flat": (lambda texts: tokenizer.encode_batch(texts).ids, joined),
    }
    rows = {}
    for name in CASES:
        texts = corpora.halves(corpora.documents(name, directory), megabytes)[1]
        for kind, calls in pairs.items():
            mine, other = (call(texts) for call in calls)
            if not np.array_equal(np.concatenate(mine) if kind == "lists" else mine, joined(texts)):
                raise SystemExit(f"{name}, {kind}: the ids differ")
            del mine, other
            best = [float("inf")] * 2
            for _ in range(turns):
                for place, call in enumerate(calls):
                    started = time.process_time()
                    call(texts)
                    best[place] = min(best[place], time.process_time() - started)
            rows[f"{name}, {kind}"] = [contest.megabytes(texts) / seconds for seconds in best]
    print(json.dumps({"version": tokenizers.__version__, "rows": rows}))


def main():
    options = contest.options(__doc__, turns=5, megabytes=4.0, path="")
    if options.path:
        measure(Path(options.path), options.corpora, options.turns, options.megabytes)
        return
    sys.path.append(str(contest.ROOT / "tests"))
    from tokenizers_environment import WHY_NOT, tokenizers_1_python

    path = trained(options.scratch / "wordpiece.json", options.corpora)
    newer = tokenizers_1_python() or print(WHY_NOT)
    for python in filter(None, (sys.executable, newer)):
        argv = [python, __file__, "--path", str(path), "--corpora", str(options.corpora)]
        argv += ["--turns", str(options.turns), "--megabytes", str(options.megabytes)]
        told = json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout)
        print(
            f"### tokenizers {told['version']}\n\n| what | tokenmill MB/CPU-s | tokenizers | ratio |\n|---|---|---|---|"
        )
        for what, (mine, other) in told["rows"].items():
            print(f"| {what} | {mine:.1f} | {other:.1f} | {mine / other:.2f} |")
        print(flush=True)


if __name__ == "__main__":
    main()
