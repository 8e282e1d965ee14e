"""Decoding speed against other tools: flat ids back to bytes or text, one thread, outputs compared first.

`python benchmarks/decode.py [--corpora DIR] [--megabytes 4] [--turns 1] [--only en,zh] [--vocabularies cl100k]`

*flat*: one array of the ids of all documents -> the bytes of all. *texts*: one array or list for each document ->
one str each. Every peer gets ids in the form that it takes fastest; making that form is not timed. CPU time. Prints a
Markdown table and writes `benchmarks/results/decode.json`.
"""

from functools import partial

import numpy as np

import contest
import corpora
import peers

# How often a turn decodes: the first also builds whatever is built on first use.
REPEATS = 4


def decoder(name, tokenizer, batch):
    """{form: a whole decode of the batch}."""
    if name == "tokenmill":
        return {
            "flat": lambda: tokenizer.decode_bytes(batch.ids),
            "texts": lambda: tokenizer.decode_batch(batch),
        }
    if name == "gigatoken":
        flat, arrays = batch.ids.astype(np.uint32), [ids.astype(np.uint32) for ids in batch]
        return {
            "flat": lambda: tokenizer.decode(flat),
            "texts": lambda: [tokenizer.decode(ids).decode() for ids in arrays],
        }
    one, lists = batch.ids.tolist(), batch.to_lists()
    if name == "tiktoken":
        return {
            "flat": lambda: tokenizer.decode_bytes(one),
            "texts": lambda: tokenizer.decode_batch(lists, num_threads=1),
        }
    return {
        "flat": lambda: tokenizer.decode(one, skip_special_tokens=False).encode(),
        "texts": lambda: tokenizer.decode_batch(lists, skip_special_tokens=False),
    }


def cells(cell, batch, size, path, name):
    """Both forms of one peer."""
    tokenizer = peers.PEERS[name](cell.split()[0], path, 1).tokenizer
    for form, action in decoder(name, tokenizer, batch).items():
        for _ in range(REPEATS):
            yield f"{cell} {form}", action, size


def main():
    options = contest.options(
        __doc__, megabytes=4.0, turns=1, only=corpora.NAMES, vocabularies=tuple(corpora.VOCABULARIES)
    )
    paths = corpora.vocabulary_files(options.scratch)
    best = {}
    for name in options.only:
        texts, _ = corpora.halves(corpora.documents(name, options.corpora), options.megabytes)
        size = contest.megabytes(texts)
        for vocabulary in options.vocabularies:
            tokenizer = peers.Tokenmill(vocabulary, paths[vocabulary], 1).tokenizer
            batch = tokenizer.encode_batch(texts, special="text", threads=1)
            if tokenizer.decode_batch(batch) != texts:
                raise SystemExit(f"{vocabulary} {name}: decoding does not give the texts back")
            case = partial(cells, f"{vocabulary} {name}", batch, size, paths[vocabulary])
            best |= contest.take_turns(case, peers.PEERS, options.turns)
    contest.publish("decode", best, "cpu", options.scratch)


if __name__ == "__main__":
    main()
