"""Encoding speed of every family that people use, each encoder from the same `tokenizer.json`.

`python benchmarks/all_families.py [--families llama3,qwen3] [--languages en,fr] [--megabytes 4] [--turns 2] [--cpu avx2] [--pages small]`

As `encode.py`: a turn loads a new tokenizer, warms it on one half of the documents, and encodes the other half,
*unseen* the first time, *seen* the second; strings to ids, one thread. Ids are compared first. It runs in an environment
of its own (`make bench-families`), since Hugging Face's `tokenizers` 1.0 takes the place of 0.23 there. `--cpu` holds our core to
other instructions than the machine's best; `--pages small` refuses huge pages to every encoder, as a busy machine does whose memory is
in fragments. Writes `families.json`, `families-CPU.json` or `families-small-pages.json`. Peers that are far behind get one turn; those
that have never been the second either run in two languages.
"""

import ctypes
import os
from functools import partial
from importlib.metadata import version
from pathlib import Path

import contest
import corpora
import materials


class Tokenmill:
    package = "tokenmill"

    def __init__(self, path: Path):
        from tokenmill import Tokenizer

        self.tokenizer = Tokenizer.load(path)
        if self.tokenizer.strategy.name != "native":
            raise RuntimeError(self.tokenizer.strategy.reason)

    def encode(self, texts):
        batch = self.tokenizer.encode_batch(texts, add_special_tokens=False, threads=1)
        return batch.ids, batch.offsets


class Gigatoken:
    package = "gigatoken"

    def __init__(self, path: Path):
        import gigatoken

        self.tokenizer = gigatoken.Tokenizer.from_json(path.read_bytes())

    def encode(self, texts):
        return self.tokenizer.encode_batch(texts, parallel=False)


class Fastokens:
    package = "fastokens"

    def __init__(self, path: Path):
        import fastokens

        self.tokenizer = fastokens.Tokenizer.from_file(str(path))

    def encode(self, texts):
        # Here, as `contest` sets NumPy's threads before it imports it.
        import numpy as np

        ids, offsets = self.tokenizer.encode_batch_flat(texts)
        return np.frombuffer(ids, np.uint32), np.frombuffer(offsets, np.uint64)


class HuggingFace:
    package = "tokenizers"

    def __init__(self, path: Path):
        import tokenizers

        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self.tokenizer = tokenizers.Tokenizer.from_file(str(path))

    def encode(self, texts):
        return [found.ids for found in self.tokenizer.encode_batch(texts, add_special_tokens=False)]


class Kitoken:
    package = "kitoken"

    def __init__(self, path: Path):
        import kitoken

        self.tokenizer = kitoken.Kitoken.from_tokenizers_file(str(path))

    def encode(self, texts):
        return self.tokenizer.encode_all(texts, encode_specials=True)


class Iree:
    package = "iree-tokenizer"

    def __init__(self, path: Path):
        from iree.tokenizer import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(path))

    def encode(self, texts):
        return self.tokenizer.encode_batch(texts)


class BpeOpenai:
    """Carries two vocabularies of its own, and loads no other."""

    package = "bpe-openai"

    def __init__(self, path: Path):
        import bpe_openai

        self.tokenizer = bpe_openai.get_encoding(path.name.split(".")[0] + "_base")

    def encode(self, texts):
        return self.tokenizer.encode_ordinary_batch(texts)


PEERS = {
    peer.package: peer for peer in (Tokenmill, Gigatoken, Fastokens, HuggingFace, Kitoken, Iree, BpeOpenai)
}
LANGUAGES = (*corpora.NAMES, *materials.PAGES)
# PR_SET_THP_DISABLE of prctl(2), which forks inherit.
NO_HUGE_PAGES = 41
# Whose distance is so large that a second turn tells nothing more.
SLOW = ("tokenizers", "kitoken", "iree-tokenizer", "bpe-openai")
# Who takes longer to load than all others to encode, and is behind Hugging Face's 1.0.
FAR, FAR_LANGUAGES = SLOW[1:], ("en", "zh")


def cells(cell, path, halves, name):
    """The two phases of one encoder."""
    warm, fresh = halves
    contest.own(fresh)
    encoder = PEERS[name](path)
    encoder.encode(warm)
    for phase in ("unseen", "seen"):
        yield f"{cell} {phase}", partial(encoder.encode, fresh), contest.megabytes(fresh)


def main():
    options = contest.options(
        __doc__,
        families=tuple(materials.FAMILIES),
        languages=LANGUAGES,
        peers=tuple(PEERS),
        megabytes=4.0,
        turns=2,
        cpu="",
        pages="",
    )
    if options.pages == "small" and ctypes.CDLL(None).prctl(NO_HUGE_PAGES, 1, 0, 0, 0):
        raise SystemExit("the kernel does not switch huge pages off for a process")
    if options.cpu:
        os.environ["TOKENMILL_CPU"] = options.cpu
    best = {}
    for language in options.languages:
        texts = materials.documents(language, options.corpora, options.scratch)
        halves = corpora.halves(texts, options.megabytes)
        for family in options.families:
            path = materials.tokenizer_file(family, options.scratch)
            case = partial(cells, f"{family} {language}", path, halves)
            found = contest.take_turns(case, [p for p in options.peers if p not in SLOW], options.turns)
            skipped = () if language in FAR_LANGUAGES else FAR
            others = [p for p in options.peers if p in SLOW and p not in skipped]
            slow = contest.take_turns(case, ["tokenmill", *others], 1) if others else {}
            for cell, rows in slow.items():
                found[cell] |= {peer: row for peer, row in rows.items() if peer != "tokenmill"}
            best |= found
    name = "-".join(["families", *filter(None, (options.cpu, options.pages and "small-pages"))])
    versions = {package: version(package) for package in PEERS if package != "tokenmill"}
    contest.publish(name, best, "cpu", options.scratch, versions)


if __name__ == "__main__":
    main()
