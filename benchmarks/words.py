"""SentencePiece-style BPE: a model of `mistral-common`, against gigatoken and sentencepiece itself.

`python benchmarks/words.py [--corpora DIR] [--megabytes 8] [--turns 3] [--only en,zh]`

MB per CPU-second, one thread, flat ids, text never seen before and the same again; sentencepiece gets one megabyte and one
turn. Writes `benchmarks/results/words.json`.
"""

from functools import partial
from importlib.metadata import distribution
from pathlib import Path

import contest
import corpora

MODEL = "mistral_common/data/tokenizer.model.v1"
# gigatoken always takes these strings for the tokens, so documents that hold them are left out.
CONTROL = ("<s>", "</s>", "<unk>")


def encoder_of(name):
    """One call for a list of texts."""
    path = Path(distribution("mistral-common").locate_file(MODEL))
    if name == "tokenmill":
        from tokenmill import Tokenizer

        ours = Tokenizer.load(path)

        def encode(texts):
            batch = ours.encode_batch(texts, special="text", threads=1)
            return batch.ids, batch.offsets

        return encode
    if name == "gigatoken":
        import gigatoken

        giga = gigatoken.Tokenizer.from_sentencepiece(path)
        return lambda texts: giga.encode_batch(texts, parallel=False)
    import sentencepiece

    reference = sentencepiece.SentencePieceProcessor(str(path))
    return lambda texts: reference.encode(texts, num_threads=1)


def cells(corpus, halves, size, name):
    """The two phases of one encoder."""
    warm, fresh = halves
    contest.own(fresh)
    encode = encoder_of(name)
    encode(warm)
    for phase in ("unseen", "seen"):
        yield f"{corpus} {phase}", partial(encode, fresh), size


def phases(corpus, texts, megabytes):
    """`cells` on so much of the texts."""
    halves = corpora.halves(texts, megabytes)
    return partial(cells, corpus, halves, contest.megabytes(halves[1]))


def main():
    options = contest.options(__doc__, megabytes=8.0, turns=3, only=corpora.NAMES)
    best = {}
    for name in options.only:
        texts = corpora.documents(name, options.corpora)
        plain = [text for text in texts if not any(token in text for token in CONTROL)]
        many, few = phases(name, plain, options.megabytes), phases(name, plain, 1)
        found = contest.take_turns(many, ("tokenmill", "gigatoken"), options.turns)
        for cell, rows in contest.take_turns(few, ("tokenmill", "sentencepiece"), 1).items():
            found[cell]["sentencepiece"] = rows["sentencepiece"]
        best |= found
    contest.publish("words", best, "cpu", options.scratch)


if __name__ == "__main__":
    main()
