"""The way of nanoGPT: datasets.map with tiktoken in worker processes, then a memory map of uint16."""

import sys
from pathlib import Path

import numpy as np
import tiktoken
from datasets import load_dataset
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def encoding(tokenizer):
    ranks = data_gym_to_mergeable_bpe_ranks(
        str(Path(tokenizer) / "merges.txt"), str(Path(tokenizer) / "vocab.json")
    )
    return tiktoken.Encoding(
        "gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256}
    )


def main(corpus, tokenizer, output, threads):
    output = Path(output)
    output.mkdir()
    encoder = encoding(tokenizer)

    def process(example):
        ids = encoder.encode_ordinary(example["text"])
        ids.append(encoder.eot_token)
        return {"ids": ids, "len": len(ids)}

    data = load_dataset("json", data_files=corpus, split="train", cache_dir=f"{output}-cache")
    done = data.map(process, remove_columns=data.column_names, num_proc=int(threads))
    total = int(np.sum(done["len"], dtype=np.uint64))
    array = np.memmap(output / "train.bin", dtype=np.uint16, mode="w+", shape=(total,))
    at, batches = 0, 64
    for number in range(batches):
        batch = done.shard(num_shards=batches, index=number, contiguous=True).with_format("numpy")
        part = np.concatenate(batch["ids"])
        array[at : at + len(part)] = part
        at += len(part)
    array.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
