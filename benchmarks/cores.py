"""All cores: many documents of 100 bytes, and one document of 1 GB, against gigatoken and fastokens.

`python benchmarks/cores.py [--corpora DIR] [--small 100] [--large 1000] [--turns 3] [--only en,zh]`

As many threads as there are cores; wall time counts. Each twice: as Python strings, and as what the encoder takes
fastest (*buffers*: an Arrow array for us, `bytes` for gigatoken). The large document is the corpus over and over. Writes
`benchmarks/results/cores.json`.
"""

import os
from functools import partial

import contest
import corpora
import peers

NAMES = ("tokenmill", "gigatoken", "fastokens")
SMALL = 100


def documents(text, wanted):
    """{case: its documents}: so many MB of about `SMALL` bytes each, and so many in one."""
    size = contest.megabytes([text])
    few = text[: int(len(text) * min(1, wanted["small"] / size))]
    step = max(1, round(SMALL * len(text) / (size * 1e6)))
    small = [few[at : at + step] for at in range(0, len(few), step)]
    times, part = divmod(wanted["large"] / size, 1)
    return {
        "documents of 100 bytes": small,
        "one document": [text * int(times) + text[: int(len(text) * part)]],
    }


def cells(cell, inputs, warm, size, path, name):
    """The first pass of one encoder, warmed on a few texts."""
    contest.own(inputs[name])
    encoder = peers.PEERS[name]("cl100k", path, os.cpu_count())
    encoder.flat(warm)
    yield cell, partial(encoder.flat, inputs[name]), size


def main():
    options = contest.options(__doc__, small=100.0, large=1000.0, turns=3, only=("en", "zh"))
    path = corpora.vocabulary_files(options.scratch)["cl100k"]
    best = {}
    for name in options.only:
        text = "\n".join(corpora.documents(name, options.corpora))
        for case, texts in documents(text, {"small": options.small, "large": options.large}).items():
            warm = [text[:1_000_000] for text in texts[: len(texts) // 50 + 1]]
            size = contest.megabytes(texts)
            forms = {"flat": dict.fromkeys(NAMES, texts), "buffers": peers.buffers(texts)}
            for form, inputs in forms.items():
                turn = partial(cells, f"{name} {case}, {form}", inputs, warm, size, path)
                best |= contest.take_turns(turn, inputs, options.turns, os.cpu_count(), "wall")
            # Who takes nothing but strings is fastest with them.
            rows = best[f"{name} {case}, flat"]
            best[f"{name} {case}, buffers"] |= {"fastokens": rows["fastokens"]}
    contest.publish("cores", best, "wall", options.scratch)


if __name__ == "__main__":
    main()
