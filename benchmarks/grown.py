"""Corpora of the sizes that people have: the documents of a small one over and over, each time with other rare words.

    python benchmarks/grown.py en 1e9 en.jsonl [--corpora DIR]

A corpus repeated as it is would be all seen after its first round, and an encoder's cache would look better than it is.
So in every round but the first, of the words that the corpus has at most three times each, one in four has another
letter (a syllable, a character) in it: new words keep coming, as they do in a corpus that grows. What is changed depends on the word
and the round alone.
"""

import argparse
import hashlib
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from corpora import CORPORA

# Words in runs of letters, Hangul or Han, and what is between them; an escape of JSON is no part of a word.
PIECES = re.compile(
    r"[A-Za-z]+|[가-힣]+|[\u4e00-\u9fff]+|(?:\\u[0-9a-fA-F]{4}|\\.|[^\\A-Za-z가-힣\u4e00-\u9fff])+", re.DOTALL
)
WORDS = re.compile(r"[A-Za-z]{4,}|[가-힣]{2,}|[\u4e00-\u9fff]{2,}")
RANGES = ((0x61, 26), (0x41, 26), (0xAC00, 11172), (0x4E00, 20992))
RARE = 3


class Corpus:
    """JSON Lines cut into pieces, of which rare words can be spelled anew."""

    def __init__(self, lines):
        numbers = {}
        sequence = [numbers.setdefault(piece, len(numbers)) for piece in PIECES.findall(lines)]
        self.spellings = list(numbers)
        self.sequence = np.array(sequence, np.int64)
        counts = Counter(sequence)
        self.rare = [
            at for at, piece in enumerate(self.spellings) if counts[at] <= RARE and WORDS.fullmatch(piece)
        ]

    def round(self, number):
        """The corpus again, as bytes."""
        spellings = list(self.spellings)
        for at in self.rare if number else ():
            chosen = hashlib.blake2b(f"{number} {spellings[at]}".encode(), digest_size=4).digest()
            if chosen[0] % 4 == 0:
                spellings[at] = respelled(spellings[at], chosen)
        flat = [piece.encode() for piece in spellings]
        lengths = np.array([len(piece) for piece in flat], np.int64)
        starts = np.cumsum(lengths) - lengths
        return gather(np.frombuffer(b"".join(flat), np.uint8), starts, lengths, self.sequence)


def respelled(word, chosen):
    """The word with another of its kind of letter in one place."""
    at = chosen[1] % len(word)
    first, count = next((first, count) for first, count in RANGES if first <= ord(word[at]) < first + count)
    letter = first + (ord(word[at]) - first + 1 + chosen[2]) % count
    return word[:at] + chr(letter) + word[at + 1 :]


def gather(data, starts, lengths, sequence):
    from tokenmill import _core

    long = lengths[sequence]
    ends = np.cumsum(long)
    out = np.empty(int(ends[-1]), np.uint8)
    _core.copy_segments(data, starts[sequence], ends - long, long, out)
    return out.tobytes()


def read_lines(name, directory=CORPORA):
    with pa.CompressedInputStream(pa.OSFile(str(Path(directory) / f"{name}.jsonl.zst")), "zstd") as stream:
        return stream.read().decode()


def grow(name, size, directory=CORPORA):
    """Bytes of whole lines, in rounds, until there are `size` of them."""
    lines = read_lines(name, directory)
    first = lines.encode()
    if len(first) >= size:
        yield first[: first.rindex(b"\n", 0, int(size)) + 1]
        return
    corpus, number, written = Corpus(lines), 0, 0
    while written < size:
        data = corpus.round(number)
        if written + len(data) > size:
            data = data[: data.index(b"\n", int(size - written)) + 1]
        yield data
        written += len(data)
        number += 1


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name")
    parser.add_argument("size", type=float)
    parser.add_argument("path", type=Path)
    parser.add_argument("--corpora", default=CORPORA)
    options = parser.parse_args()
    with options.path.open("wb") as file:
        for data in grow(options.name, options.size, options.corpora):
            file.write(data)


if __name__ == "__main__":
    main()
