"""Split patterns and special tokens of the published encodings, by name.

The patterns are those that each project ships (tiktoken's `openai_public.py`, the models' own tokenizer
code); the core recognises their spellings and runs its hand-written scanner for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
CL100K = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"""
    r"""|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
QWEN2 = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"""
    r"""|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SHORT}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = O200K.replace(_SHORT, "").replace(r"\p{N}{1,3}", r"\p{N}")

# Names that `pattern=` takes beside a regex.
BY_NAME = {
    "gpt2": GPT2,
    "cl100k": CL100K,
    "llama3": CL100K,
    "olmo2": CL100K,
    "qwen2": QWEN2,
    "qwen3": QWEN2,
    "qwen3.5": QWEN35,
    "o200k": O200K,
    "llama4": O200K,
    "tekken": TEKKEN,
}


@dataclass(frozen=True, slots=True)
class Encoding:
    """A published `.tiktoken` vocabulary: its pattern and special tokens."""

    pattern: str
    special_tokens: dict[str, int] = field(default_factory=dict)


_FIM = {"<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260}
# Each key is both a name for `Tokenizer.load` and the stem of the file.
ENCODINGS = {
    "gpt2": Encoding(GPT2, {"<|endoftext|>": 50256}),
    "r50k_base": Encoding(GPT2, {"<|endoftext|>": 50256}),
    "p50k_base": Encoding(GPT2, {"<|endoftext|>": 50256}),
    "p50k_edit": Encoding(
        GPT2,
        {
            "<|endoftext|>": 50256,
            "<|fim_prefix|>": 50281,
            "<|fim_middle|>": 50282,
            "<|fim_suffix|>": 50283,
        },
    ),
    "cl100k_base": Encoding(CL100K, {"<|endoftext|>": 100257, **_FIM, "<|endofprompt|>": 100276}),
    "o200k_base": Encoding(O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
    "qwen": Encoding(
        QWEN2,
        {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
        | {f"<|extra_{i}|>": 151646 + i for i in range(205)},
    ),
}
