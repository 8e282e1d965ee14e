"""Encoding speed against other tools: MB per CPU-second and ratios, ids compared first.

`python benchmarks/encode.py [--corpora DIR] [--megabytes 16] [--turns 3] [--threads 1] [--only en,zh]`

A turn loads a new tokenizer, warms it on one half of the documents, then encodes the other half: *unseen* the first
time, *seen* the second. *flat* is Python strings to flat ids, *lists* to lists, *buffers* flat ids from what the encoder takes
fastest (an Arrow array for us, `bytes` for gigatoken). The two slow references, which have only lists, get one
megabyte and one turn. Writes `benchmarks/results/encode.json`.
"""

from functools import partial

import contest
import corpora
import peers

FAST = ("tokenmill", "gigatoken", "fastokens")
SLOW = ("tiktoken", "tokenizers")


def cells(cell, inputs, size, options, name):
    """The two phases of one encoder."""
    vocabulary, _, form = cell.split()
    path = corpora.vocabulary_files(options.scratch)[vocabulary]
    warm, fresh = inputs[name]
    contest.own(fresh)
    encoder = peers.PEERS[name](vocabulary, path, options.threads)
    encode = encoder.lists if form == "lists" else encoder.flat
    encode(warm)
    for phase in ("unseen", "seen"):
        yield f"{cell} {phase}", partial(encode, fresh), size


def measure(name, options):
    """All cells of a corpus."""
    texts = corpora.documents(name, options.corpora)
    many, few = corpora.halves(texts, options.megabytes), corpora.halves(texts, 1)
    warm, fresh = (peers.buffers(half) for half in many)
    packed = {peer: (warm[peer], fresh[peer]) for peer in fresh}
    forms = {"flat": dict.fromkeys(FAST, many), "lists": dict.fromkeys(FAST, many), "buffers": packed}
    sizes = contest.megabytes(many[1]), contest.megabytes(few[1])
    best = {}
    for vocabulary in options.vocabularies:
        for form, inputs in forms.items():
            case = partial(cells, f"{vocabulary} {name} {form}", inputs, sizes[0], options)
            best |= contest.take_turns(case, inputs, options.turns, options.threads)
        for phase in ("unseen", "seen"):
            # Who takes nothing but strings is fastest with them.
            rows = best[f"{vocabulary} {name} buffers {phase}"]
            rows |= {"fastokens": best[f"{vocabulary} {name} flat {phase}"]["fastokens"]}
        inputs = dict.fromkeys(("tokenmill", *SLOW), few)
        case = partial(cells, f"{vocabulary} {name} lists", inputs, sizes[1], options)
        for cell, rows in contest.take_turns(case, inputs, 1, options.threads).items():
            for form in ("lists", "flat"):
                best[cell.replace("lists", form)] |= {peer: rows[peer] for peer in SLOW if peer in rows}
    return best


def main():
    options = contest.options(
        __doc__,
        megabytes=16.0,
        turns=3,
        threads=1,
        only=corpora.NAMES,
        vocabularies=tuple(corpora.VOCABULARIES),
    )
    best = {}
    for name in options.only:
        best |= measure(name, options)
    contest.publish("encode", best, "cpu", options.scratch)


if __name__ == "__main__":
    main()
