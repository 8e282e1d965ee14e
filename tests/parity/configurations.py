"""HF tokenizers built as the model families build them, on small vocabularies that are trained here."""

import json
from functools import cache

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torture import edges, mixtures

CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = CL100K.replace("{1,3}", "")
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
CORPUS = [
    *edges(),
    *mixtures()[:1500],
    "the cat sat on the mat; it's 1234 cats' mats. " * 30,
    "안녕 세상 中文 日本語 " * 30,
]


def split(pattern, behavior="isolated", *, invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)


def level(*, prefix=False, regex=True):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def chain(*steps):
    return pre_tokenizers.Sequence(list(steps))


def trained(pre_tokenizer, normalizer=None, size=700, **model):
    hf = Tokenizer(models.BPE(**model))
    if normalizer is not None:
        hf.normalizer = normalizer
    hf.pre_tokenizer = pre_tokenizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    suffix = model.get("end_of_word_suffix")
    extra = {"end_of_word_suffix": suffix} if suffix else {}
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=alphabet,
        special_tokens=["<|endoftext|>"],
        show_progress=False,
        **extra,
    )
    hf.train_from_iterator(CORPUS, trainer)
    hf.decoder = decoders.ByteLevel()
    return hf


def roberta():
    hf = trained(level(prefix=True))
    hf.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True
    )
    hf.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return hf


def llama3():
    hf = trained(chain(split(CL100K), level(regex=False)))
    data = json.loads(hf.to_str())
    data["model"]["ignore_merges"] = True
    hf = Tokenizer.from_str(json.dumps(data))
    hf.add_special_tokens(["<|begin_of_text|>", "<|eot_id|>"])
    bos = hf.token_to_id("<|begin_of_text|>")
    template = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", bos)]
    )
    hf.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return hf


def falcon():
    steps = chain(
        pre_tokenizers.Punctuation("contiguous"), level(), pre_tokenizers.Digits(), split("[0-9][0-9][0-9]")
    )
    return trained(steps)


def falcon_ended():
    """Falcon's chain with ByteLevel last, as later conversions write it."""
    punctuation = pre_tokenizers.Punctuation("contiguous")
    return trained(chain(punctuation, pre_tokenizers.Digits(), split("[0-9][0-9][0-9]"), level()))


def deepseek_coder():
    letters = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+"
    signs = r"\s?[!-/:-~！-／：-～‘-‟　-。]+"
    return trained(
        chain(
            split("[\r\n]"),
            split(letters),
            split(signs),
            split(r"\s+$"),
            split("[一-龥ࠀ-一가-퟿]+"),
            pre_tokenizers.Digits(individual_digits=True),
            level(regex=False),
        )
    )


def clip():
    normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    return trained(
        chain(split(CLIP, "removed", invert=True), level()),
        normalizer,
        end_of_word_suffix="</w>",
        unk_token="<|endoftext|>",
    )


def with_added_tokens(hf):
    """Tokens with every combination of flags."""
    for bits in range(16):
        lstrip, rstrip, single, normalized = (bool(bits >> place & 1) for place in range(4))
        flags = {"lstrip": lstrip, "rstrip": rstrip, "single_word": single, "normalized": normalized}
        hf.add_tokens([AddedToken(f"<T{bits}>", **flags), AddedToken(f"Word{bits}", **flags)])
        hf.add_special_tokens([AddedToken(f"[S{bits}]", **flags)])
    hf.add_tokens(
        [
            AddedToken("<T1><T2>"),
            AddedToken("  "),
            AddedToken("\n\n\n", normalized=False),
            AddedToken("École"),
        ]
    )
    return hf


def spm_style(normalizer, pre_tokenizer, *, fallback=True):
    """Characters, byte fallback, `▁`: the shape of Llama-2, Mistral and Gemma."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words = ["▁the", "▁cat", "the", "▁th", "at", "ing", "안녕", "▁▁", "▁▁▁▁", "中文", "▁a", "in", "▁b", "▁c"]
    chars = sorted(
        {char for word in words for char in word} | set("abcdefghijklmnopqrstuvwxyzABC0123456789.,'!-\n")
    )
    merges, vocabulary = [], dict.fromkeys(pieces + chars)
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in vocabulary:
                merges.append((word[: end - 1], word[end - 1 : end]))
                vocabulary[word[:end]] = None
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    hf = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=fallback))
    if normalizer is not None:
        hf.normalizer = normalizer
    if pre_tokenizer is not None:
        hf.pre_tokenizer = pre_tokenizer
    hf.add_special_tokens(["<unk>", "<s>", "</s>"])
    hf.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    hf.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return hf


def marked(*, prepend):
    steps = [normalizers.Prepend("▁")] if prepend else []
    return normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])


NATIVE = {
    "gpt2": lambda: trained(level()),
    "gpt2-prefix": lambda: trained(level(prefix=True)),
    "roberta": roberta,
    "llama3": llama3,
    "qwen-nfc": lambda: trained(chain(split(QWEN), level(regex=False)), normalizers.NFC()),
    "neox-nfc": lambda: trained(level(), normalizers.NFC()),
    "starcoder": lambda: trained(chain(pre_tokenizers.Digits(individual_digits=True), level())),
    "olmo": lambda: trained(level(), normalizers.NFC()),
    "falcon-ended": falcon_ended,
    "deepseek-coder": deepseek_coder,
    "own-pattern": lambda: trained(chain(split(r"\w+|\s+|[^\w\s]"), level(regex=False))),
    "nfkc-lower": lambda: trained(level(), normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])),
    "nfd-strip": lambda: trained(level(), normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()])),
    "added": lambda: with_added_tokens(trained(level())),
    "added-nfc": lambda: with_added_tokens(trained(level(), normalizers.NFC())),
    "added-lower": lambda: with_added_tokens(trained(level(prefix=True), normalizers.Lowercase())),
    "llama2": lambda: spm_style(marked(prepend=True), None),
    "llama2-added": lambda: with_added_tokens(spm_style(marked(prepend=True), None)),
    "gemma": lambda: spm_style(marked(prepend=False), pre_tokenizers.Split(" ", "merged_with_previous")),
    "mistral-metaspace": lambda: spm_style(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
    "metaspace-always": lambda: spm_style(None, pre_tokenizers.Metaspace(prepend_scheme="always", split=False)),
    "metaspace-split": lambda: spm_style(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=True)),
    "metaspace-added": lambda: with_added_tokens(spm_style(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False))),
    "falcon": falcon,
    "clip": clip,
    "no-fallback": lambda: spm_style(marked(prepend=True), None, fallback=False),
}  # fmt: skip
FAST = {"posix": lambda: trained(chain(split("[[:alpha:]]+"), level(regex=False)))}


@cache
def built(name):
    return (NATIVE | FAST)[name]()
