"""A small byte-level tokenizer, made without any file."""

import pytest

from tokenmill import Tokenizer
from tokenmill.tokenizer.recipe import AddedToken, Recipe, build_byte_model, make_pre_tokenizer

MERGES = [b"th", b"the", b" the", b"in", b"ing", b"an", b" a", b"er", b"he", b"ll", b"ell", b"hell", b"hello"]


def small_recipe(pattern="gpt2", **changes):
    tokens = [bytes([byte]) for byte in range(256)]
    merges = []
    for token in MERGES:
        left = max(
            (cut for cut in range(1, len(token)) if token[:cut] in tokens and token[cut:] in tokens),
            default=0,
        )
        if left:
            merges.append((tokens.index(token[:left]), tokens.index(token[left:])))
            tokens.append(token)
    added = (AddedToken("<|end|>", len(tokens)), AddedToken("<pad>", len(tokens) + 1))
    fields = {
        "source": "small", "format": "test", "model": build_byte_model(zip(tokens, range(len(tokens)), strict=True), merges, "small"), "added": added,
        "pre_tokenizer": make_pre_tokenizer(pattern), "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}, "config": {"eos_token": "<|end|>"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [added[0].id], "tokens": ["<|end|>"]}},
        },
    }  # fmt: skip
    return Recipe(**(fields | changes))


@pytest.fixture(scope="session")
def tok():
    return Tokenizer(small_recipe())
