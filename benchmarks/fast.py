"""WordPiece through the `huggingface` engine against Hugging Face's own call.

    python benchmarks/fast.py [--turns 5] [--megabytes 4]

A BERT tokenizer (BertNormalizer, BertPreTokenizer, WordPiece of 30,000) is trained once, on English and Chinese. The same
documents are encoded both ways in turns: lists against `[e.ids for e in encode_batch_fast(…)]`, flat arrays against those
joined. Ids are compared first; the least CPU time of the turns counts, and the
ratio is theirs over ours.
"""

import time

import contest
import corpora

CASES = ("en", "zh")


def trained(path, directory):
    """The tokenizer.json."""
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
    return lambda texts: made.encode_batch_fast(texts, add_special_tokens=False)


def measure(path, directory, turns, megabytes):
    """{case: {lists, flat}} of speeds."""
    import numpy as np

    tokenizer, encode = ours(path), theirs(path)

    def joined(texts):
        return np.concatenate([np.asarray(e.ids, np.uint32) for e in encode(texts)])

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
    return rows


def main():
    options = contest.options(__doc__, turns=5, megabytes=4.0)
    path = trained(options.scratch / "wordpiece.json", options.corpora)
    rows = measure(path, options.corpora, options.turns, options.megabytes)
    print("| what | tokenmill MB/CPU-s | tokenizers | ratio |\n|---|---|---|---|")
    for what, (mine, other) in rows.items():
        print(f"| {what} | {mine:.1f} | {other:.1f} | {mine / other:.2f} |")


if __name__ == "__main__":
    main()
