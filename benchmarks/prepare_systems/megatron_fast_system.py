"""What Megatron-LM's `tools/preprocess_data_fast.py` does: the whole file in memory, gigatoken, `.bin` and `.idx`.

Its own module needs torch and Megatron around it; this is its recipe: lines parsed with `json` (of Parquet, the column), all texts
encoded in one call, an end-of-document token after each, the index as Megatron writes it.
"""

import json
import struct
import sys
from pathlib import Path

import awkward as ak
import gigatoken
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EOS = 50256
UINT16 = 8


def texts_of(corpus):
    if corpus.endswith(".parquet"):
        return pq.read_table(corpus, columns=["text"])["text"].to_pylist()
    with pa.input_stream(corpus, compression="detect") as stream:
        return [json.loads(line)["text"] for line in stream.read().splitlines()]


def main(corpus, tokenizer, output, _threads):
    output = Path(output)
    output.mkdir()
    encoder = gigatoken.Tokenizer(str(Path(tokenizer) / "tokenizer.json"))
    batch = encoder.encode_batch(texts_of(corpus))
    lengths = ak.to_numpy(ak.num(batch)).astype(np.int64) + 1
    ends = np.cumsum(lengths)
    out = np.full(int(ends[-1]), EOS, dtype=np.uint16)
    place = np.ones(len(out), dtype=bool)
    place[ends - 1] = False
    out[place] = ak.to_numpy(ak.flatten(batch))
    out.tofile(output / "train.bin")
    with (output / "train.idx").open("wb") as index:
        index.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, UINT16, len(lengths), len(lengths) + 1))
        for part in (
            lengths.astype("<i4"),
            ((ends - lengths) * 2).astype("<i8"),
            np.arange(len(lengths) + 1, dtype="<i8"),
        ):
            index.write(part.tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
