"""The published `.tiktoken` vocabularies: which family each belongs to, and its special tokens."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Encoding:
    """What a `.tiktoken` file does not hold: the family of its pattern and the special tokens."""

    family: str
    special_tokens: dict[str, int] = field(default_factory=dict)


_END = "<|endoftext|>"
_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")


def _number_from(first: int, *names: str) -> dict[str, int]:
    return {name: first + place for place, name in enumerate(names)}


# What gpt-oss calls ids that are otherwise reserved.
_HARMONY = {
    199998: "<|startoftext|>",
    199999: _END,
    200002: "<|return|>",
    200003: "<|constrain|>",
    200005: "<|channel|>",
    200006: "<|start|>",
    200007: "<|end|>",
    200008: "<|message|>",
    200012: "<|call|>",
}
# Each key is both a name for `Tokenizer.load` and the stem of the file.
ENCODINGS = {
    "gpt2": Encoding("gpt2", {_END: 50256}),
    "r50k_base": Encoding("r50k", {_END: 50256}),
    "p50k_base": Encoding("p50k", {_END: 50256}),
    "p50k_edit": Encoding("p50k", {_END: 50256, **_number_from(50281, *_FIM)}),
    "cl100k_base": Encoding("cl100k", {**_number_from(100257, _END, *_FIM), "<|endofprompt|>": 100276}),
    "o200k_base": Encoding("o200k", {_END: 199999, "<|endofprompt|>": 200018}),
    "o200k_harmony": Encoding(
        "o200k",
        {"<|endofprompt|>": 200018}
        | {name: i for i, name in _HARMONY.items()}
        | {f"<|reserved_{i}|>": i for i in range(200000, 201088) if i not in _HARMONY},
    ),
    "qwen": Encoding(
        "qwen2",
        _number_from(151643, _END, "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))),
    ),
}
