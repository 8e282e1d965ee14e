"""Tokenizers of a few hundred tokens, written as Hugging Face writes them. For tests of settings and jobs."""

import json

from tokenmill._core import spell

MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("e", "r"), ("ì", "ķ"), ("Ġ", "d"), ("o", "c")]


def write_bpe(directory):
    """A byte-level BPE with GPT-2's pattern: the native engine takes it."""
    return _write(directory, make_bpe())


def make_bpe():
    """Return the `tokenizer.json` of `write_bpe`."""
    tokens = [spell(bytes([byte])) for byte in range(256)] + [left + right for left, right in MERGES]
    vocab = {token: place for place, token in enumerate(tokens)}
    eos = {"id": len(vocab), "content": "<|endoftext|>", "special": True, "single_word": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return _make(
        added=[eos | {"lstrip": False, "rstrip": False, "normalized": False}],
        pre_tokenizer=byte_level,
        decoder=byte_level,
        model={"type": "BPE", "vocab": vocab, "merges": [" ".join(pair) for pair in MERGES]},
    )


def write_word_piece(directory):
    """A WordPiece model: only Hugging Face's engine takes it."""
    pieces = [
        "[UNK]",
        "the",
        "doc",
        "##ument",
        *map(chr, range(97, 123)),
        *(f"##{chr(c)}" for c in range(97, 123)),
    ]
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {token: place for place, token in enumerate(pieces)},
    }
    return _write(directory, _make(added=[], pre_tokenizer={"type": "Whitespace"}, decoder=None, model=model))


def _make(*, added, pre_tokenizer, decoder, model):
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }


def _write(directory, data):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    return directory
