"""The files that pages speak of, small: corpora, tokenizers, a model, in the places where a reader would have them."""

import json
import shutil
from pathlib import Path

import pyarrow as pa

import tokenmill

ROOT = Path(__file__).parents[2]
SAMPLE = Path(tokenmill.__file__).parent / "data" / "sample.jsonl"
# Names under which pages have a tokenizer.
TOKENIZERS = ("my-tokenizer", "my-tokenizers/mine", "tok", "qwen", "path/to/tokenizer", "tokenizers/mine")
# What pages ask of a corpus of gigabytes, and what the sample can give.
SMALLER = {
    "--vocab-size 64k --ladder 8k,16k,32k": "--vocab-size 500 --ladder 300,400",
    "ko-sizes/8000 ko-sizes/16000 ko-sizes/32000": "ko-sizes/300 ko-sizes/400",
    "--add 16000": "--add 40",
    "add=16000": "add=40",
}


def set_stage(folder, *, model=True, text=""):
    """Write everything into an empty folder; `model` needs safetensors, `text` is the page's."""
    lines = SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    for language in ("en", "ko", "zh", "code"):
        _compress(folder / f"{language}.jsonl.zst", _of_language(lines, language))
    (folder / "corpus").mkdir()
    _compress(folder / "corpus" / "first.jsonl.zst", lines[::2])
    _compress(folder / "corpus" / "second.jsonl.zst", lines[1::2])
    (folder / "corpus.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "README.md").write_text("The mill turns.\n", encoding="utf-8")
    (folder / "words.txt").write_text("방앗간\n", encoding="utf-8")
    shutil.copy(ROOT / "examples" / "gpt2-xl.json", folder / "config.json")
    shutil.copytree(ROOT / "examples", folder / "examples")
    _write_tokenizers(folder)
    if " out " in text and not any(words in text for words in ('output="out"', "--output out")):
        _prepare(folder, "out")  # a page that speaks of a dataset and does not make it
    (folder / "data" / "part.jsonl").write_text("".join(lines[:200]), encoding="utf-8")
    if model:
        _write_model(folder / "Qwen3-0.6B", folder / "qwen")


def _of_language(lines, language):
    return [line for line in lines if json.loads(line)["lang"] == language]


def _compress(path, lines):
    path.write_bytes(pa.compress("".join(lines).encode(), codec="zstd", asbytes=True))


def _write_tokenizers(folder):
    tokenizer = tokenmill.train(
        [str(SAMPLE)], 1000, pattern="qwen2", special_tokens=["<|endoftext|>"], progress=False
    )
    for name in TOKENIZERS:
        tokenizer.save(folder / name)
    (folder / "my-datasets").mkdir()
    for name in ("my-datasets/mine", "data"):
        _prepare(folder, name)


def _prepare(folder, name):
    tokenmill.prepare(
        str(folder / "corpus.jsonl"),
        str(folder / "qwen"),
        str(folder / name),
        provenance=True,
        show_progress=False,
    )


def _write_model(folder, tokenizer):
    import numpy as np
    from safetensors.numpy import save_file

    size = tokenmill.Tokenizer.load(tokenizer).vocab_size
    folder.mkdir()
    save_file(
        {"model.embed_tokens.weight": np.ones((size, 8), np.float32)},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    (folder / "config.json").write_text(
        json.dumps({"vocab_size": size, "hidden_size": 8, "tie_word_embeddings": True})
    )
