"""The way of Megatron's preprocess_data.py, made again from its recipe: lines through a pool, one writer of bin and idx."""

import json
import struct
import sys
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerFast

END = 50256
HEADER = struct.pack("<9sQB", b"MMIDIDX\x00\x00", 1, 8)  # its code 8 is uint16
encoder = None


def start(tokenizer):
    global encoder  # noqa: PLW0603 - one per worker process
    encoder = PreTrainedTokenizerFast(tokenizer_file=str(Path(tokenizer) / "tokenizer.json"))


def encode(line):
    return [*encoder(json.loads(line)["text"])["input_ids"], END]


def main(corpus, tokenizer, output, threads):
    output = Path(output)
    output.mkdir()
    lengths = []
    with (
        Pool(int(threads), start, (tokenizer,)) as pool,
        Path(corpus).open(encoding="utf-8") as lines,
        (output / "train.bin").open("wb") as file,
    ):
        for ids in pool.imap(encode, lines, 32):
            file.write(np.array(ids, np.uint16).tobytes())
            lengths.append(len(ids))
    sizes = np.array(lengths, np.int32)
    starts = (np.cumsum(sizes, dtype=np.int64) - sizes) * 2
    documents = np.arange(len(sizes) + 1, dtype=np.int64)
    counts = struct.pack("<QQ", len(sizes), len(documents))
    parts = [HEADER, counts, sizes.tobytes(), starts.tobytes(), documents.tobytes()]
    (output / "train.idx").write_bytes(b"".join(parts))


if __name__ == "__main__":
    main(*sys.argv[1:])
