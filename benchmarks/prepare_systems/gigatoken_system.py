"""gigatoken's file API, then NumPy: end-of-text tokens, uint16, tokens and offsets on disk."""

import sys
from pathlib import Path

import awkward as ak
import gigatoken
import numpy as np

EOS = 50256


def main(corpus, tokenizer, output, _threads):
    output = Path(output)
    output.mkdir()
    encoder = gigatoken.Tokenizer(str(Path(tokenizer) / "tokenizer.json"))
    if corpus.endswith(".parquet"):
        source = gigatoken.ParquetFileSource([corpus], column="text")
    else:
        source = gigatoken.JsonlFileSource([corpus], field="text")
    batch = encoder.encode_files(source)
    ids = ak.to_numpy(ak.flatten(batch)).astype(np.uint16)
    lengths = ak.to_numpy(ak.num(batch)).astype(np.int64)
    ends = np.cumsum(lengths + 1)
    out = np.empty(len(ids) + len(lengths), dtype=np.uint16)
    place = np.ones(len(out), dtype=bool)
    place[ends - 1] = False
    out[place] = ids
    out[ends - 1] = EOS
    out.tofile(output / "train.bin")
    np.concatenate([[0], ends]).astype(np.uint64).tofile(output / "train.idx")


if __name__ == "__main__":
    main(*sys.argv[1:])
