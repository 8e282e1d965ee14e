"""Encoders behind one interface, each called the way its own documentation says is fastest."""

import base64
import os
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

# tiktoken's own patterns, for peers that take a pattern.
PATTERNS = {
    "gpt2": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    "cl100k": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|"""
    r"""\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
    "o200k": r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"""
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"""
    r"""[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"""
    r"""\s*[\r\n]+|\s+(?!\S)|\s+""",
}


def json_file(vocabulary: str, path: Path) -> Path:
    """The vocabulary as a `tokenizer.json`, which our own converter writes where it is missing."""
    from tokenmill import Tokenizer

    target = path.parent / f"{vocabulary}-hf"
    if not target.exists():
        Tokenizer.load(path).save(target, format="hf")
    return target / "tokenizer.json"


class Tokenmill:
    """Ours, through the public Python API."""

    package = "tokenmill"

    def __init__(self, _vocabulary: str, path: Path, threads: int):
        from tokenmill import Tokenizer

        self.tokenizer, self.threads = Tokenizer.load(path), threads

    def flat(self, texts):
        batch = self.tokenizer.encode_batch(texts, special="text", threads=self.threads)
        return batch.ids, batch.offsets

    def lists(self, texts):
        return self.tokenizer.encode_batch(texts, special="text", threads=self.threads).to_lists()

    @staticmethod
    def packed(texts):
        # Not from the strings themselves: Arrow would leave their UTF-8 in them, for the next encoder.
        return pa.array([text.encode() for text in texts], pa.large_binary()).cast(pa.large_string())


class Gigatoken:
    """gigatoken; its arrays are awkward arrays over flat buffers."""

    package = "gigatoken"

    def __init__(self, vocabulary: str, path: Path, threads: int):
        import gigatoken

        self.tokenizer = gigatoken.Tokenizer.from_tiktoken(path, vocabulary, {})
        self.parallel = threads > 1

    def flat(self, texts):
        return self.tokenizer.encode_batch(texts, parallel=self.parallel)

    def lists(self, texts):
        return self.tokenizer.encode_batch_list(texts, parallel=self.parallel)

    @staticmethod
    def packed(texts):
        return [text.encode() for text in texts]


class Fastokens:
    """fastokens; its threads follow RAYON_NUM_THREADS."""

    package = "fastokens"

    def __init__(self, vocabulary: str, path: Path, _threads: int):
        import fastokens

        # Both of its loaders were tried: GPT-2 is four times as fast from JSON, the others, known by name, are not.
        if vocabulary == "gpt2":
            self.tokenizer = fastokens.Tokenizer.from_file(str(json_file(vocabulary, path)))
        else:
            self.tokenizer = fastokens.Tokenizer.from_tiktoken(str(path), encoding=path.stem)

    def flat(self, texts):
        ids, offsets = self.tokenizer.encode_batch_flat(texts)
        return np.frombuffer(ids, np.uint32), np.frombuffer(offsets, np.uint64)

    def lists(self, texts):
        return [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]


class Tiktoken:
    """tiktoken, the reference; only lists."""

    package = "tiktoken"

    def __init__(self, vocabulary: str, path: Path, threads: int):
        import tiktoken

        lines = (line.split() for line in path.read_bytes().splitlines())
        ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
        self.tokenizer = tiktoken.Encoding(
            vocabulary, pat_str=PATTERNS[vocabulary], mergeable_ranks=ranks, special_tokens={}
        )
        self.threads = threads

    def lists(self, texts):
        return self.tokenizer.encode_ordinary_batch(texts, num_threads=self.threads)

    flat = None


class HuggingFace:
    """HF `tokenizers`, from the `tokenizer.json` that our own converter writes; only lists."""

    package = "tokenizers"

    def __init__(self, vocabulary: str, path: Path, threads: int):
        import tokenizers

        from tokenmill import Tokenizer

        target = path.parent / f"{vocabulary}-hf"
        if not target.exists():
            Tokenizer.load(path).save(target, format="hf")
        tokenizer = tokenizers.Tokenizer.from_file(str(target / "tokenizer.json"))
        if hasattr(tokenizer, "encode_batch_fast"):
            tokenizer.encode_special_tokens = True
            self.encode = tokenizer.encode_batch_fast
        else:  # version 1
            self.encode = partial(tokenizer.encode_batch, encode_special_tokens=True)
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"

    def lists(self, texts):
        return [encoding.ids for encoding in self.encode(texts, add_special_tokens=False)]

    flat = None


PEERS = {peer.package: peer for peer in (Tokenmill, Gigatoken, Fastokens, Tiktoken, HuggingFace)}


def buffers(texts) -> dict[str, Any]:
    """The texts as what each encoder takes faster than Python strings, for those that take anything else."""
    return {name: peer.packed(texts) for name, peer in PEERS.items() if hasattr(peer, "packed")}


def versions() -> dict[str, str]:
    """Version of every package that takes part."""
    return {name: version(name) for name in PEERS if name != "tokenmill"}
