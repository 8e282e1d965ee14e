"""Every family's pattern as others publish it: tiktoken's regex, and the pre-tokenizer of a `tokenizer.json`.

Nothing here comes from tokenmill's own table, which is what the tests hold against it.
"""

import json

import tiktoken_ext.openai_public as openai
from vocabularies import DEEPSEEK, TEKKEN, place


def published(name):
    """The pattern that tiktoken has for one of its encodings."""
    original, openai.load_tiktoken_bpe = openai.load_tiktoken_bpe, lambda *_, **__: {}
    try:
        return getattr(openai, name)()["pat_str"]
    finally:
        openai.load_tiktoken_bpe = original


def level(*, use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def split(regex):
    step = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    return sequence(step, level(use_regex=False))


def digits_first():
    """StarCoder's and Command-R's."""
    return sequence({"type": "Digits", "individual_digits": True}, level(use_regex=True))


def deepseek():
    """From the model's own file."""
    return json.loads(place(*DEEPSEEK).read_text(encoding="utf-8"))["pre_tokenizer"]


# Meta's tokenizer.py of Llama 3, and the tokenizer.json of Llama-3, OLMo-2; Qwen's; Llama-4's.
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA4 = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN_PATTERN = json.loads(place(*TEKKEN).read_text(encoding="utf-8"))["config"]["pattern"]
# Moonshot's tokenization_kimi.py.
_KIMI_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_KIMI_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI = (
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{_KIMI_UPPER}*{_KIMI_LOWER}+{_SHORT}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_KIMI_UPPER}+{_KIMI_LOWER}*{_SHORT}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# tiktoken's own cl100k takes all white space at the end of a text together, which no tokenizer.json has: by hand.
CL100K_TAIL = LLAMA3.replace(r"\s*[\r\n]+|\s+(?!\S)|\s+", r"\s++$|\s*[\r\n]+|\s+(?!\S)|\s+")

# name: (tiktoken's regex or None where one regex cannot say it, the pre-tokenizer of a tokenizer.json)
FAMILIES = {
    "gpt2": (openai.r50k_pat_str, level(use_regex=True)),
    "r50k": (openai.r50k_pat_str, level(use_regex=True)),
    "p50k": (openai.r50k_pat_str, level(use_regex=True)),
    "starcoder": (None, digits_first()),
    "command-r": (None, digits_first()),
    "cl100k": (LLAMA3, split(LLAMA3)),
    "llama3": (LLAMA3, split(LLAMA3)),
    "olmo2": (LLAMA3, split(LLAMA3)),
    "cl100k-tiktoken": (published("cl100k_base"), split(CL100K_TAIL)),
    "qwen2": (QWEN2, split(QWEN2)),
    "qwen3": (QWEN2, split(QWEN2)),
    "qwen3.5": (QWEN35, split(QWEN35)),
    "o200k": (published("o200k_base"), split(LLAMA4)),
    "llama4": (LLAMA4, split(LLAMA4)),
    "tekken": (TEKKEN_PATTERN, split(TEKKEN_PATTERN)),
    "kimi-k2": (KIMI, split(KIMI)),
    "deepseek-v3": (None, deepseek()),
}
