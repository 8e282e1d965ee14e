"""One long piece: 1 MB of a letter, of spaces, of newlines…, which no pattern cuts, against every peer.

`python benchmarks/pieces.py [--turns 2] [--bytes 1000000] [--vocabularies cl100k]`

MB per CPU-second, one thread. A peer that fails on an input is reported. The bar: at least the best peer, and never
under 30. Writes `benchmarks/results/pieces.json`.
"""

from functools import partial

import contest
import corpora
import linear
import peers

NAMES = ("tokenmill", "gigatoken", "fastokens")
# Minutes for some pieces, and far behind: one turn.
SLOW = ("tokenmill", "tiktoken")
INPUTS = ("one letter", "spaces", "newlines", "punctuation", "random letters", "Han", "emoji")


def cells(vocabulary, path, kind, texts, name):
    """One input; tables that are built on first use are not in the figure."""
    encoder = peers.PEERS[name](vocabulary, path, 1)
    encode = encoder.flat or encoder.lists
    first, text = texts
    encode([first])
    yield f"{vocabulary} {kind}", partial(encode, [text]), contest.megabytes([text])


def main():
    options = contest.options(
        __doc__, bytes=1_000_000, turns=2, vocabularies=tuple(corpora.VOCABULARIES), only=INPUTS
    )
    paths = corpora.vocabulary_files(options.scratch)
    # The first is some bytes shorter, so that the piece itself is new; random ones are others altogether.
    first, second = linear.inputs(options.bytes - 999, 1), linear.inputs(options.bytes, 2)
    best = {}
    for vocabulary in options.vocabularies:
        for kind in options.only:
            case = partial(cells, vocabulary, paths[vocabulary], kind, (first[kind], second[kind]))
            found = contest.take_turns(case, NAMES, options.turns)
            for cell, rows in contest.take_turns(case, SLOW, 1).items():
                found[cell] |= {name: row for name, row in rows.items() if name != "tokenmill"}
            best |= found
    contest.publish("pieces", best, "cpu", options.scratch)


if __name__ == "__main__":
    main()
