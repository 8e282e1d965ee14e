"""What a vocabulary is and how it encodes texts: fertility, unused tokens, throughput."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import cut_ranges, discover, read_blocks, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.tokenizer.tokenizer import Tokenizer

_WORD = re.compile(r"\w+")
_BLOCK = 4 << 20


@dataclass(frozen=True)
class Description:
    """A tokenizer in a few facts."""

    source: str
    family: str
    strategy: str
    reason: str
    vocab_size: int
    special_tokens: dict[str, int]
    added_tokens: int
    fingerprint: str


@dataclass
class Measurement:
    """What one tokenizer made of one corpus."""

    tokenizer: str
    corpus: str
    documents: int = 0
    bytes: int = 0
    characters: int = 0
    words: int = 0
    tokens: int = 0
    seconds: float = 0.0
    used: int = 0
    vocab_size: int = 0
    extrapolated: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Counts and the rates that people compare."""
        return asdict(self) | {
            "bytes_per_token": _ratio(self.bytes, self.tokens),
            "tokens_per_word": _ratio(self.tokens, self.words),
            "tokens_per_character": _ratio(self.tokens, self.characters),
            "unused": self.vocab_size - self.used,
            "unused_share": _ratio(self.vocab_size - self.used, self.vocab_size),
            "megabytes_per_second": _ratio(self.bytes / 1e6, self.seconds),
        }


def describe(tokenizer: Tokenizer) -> Description:
    """Family, strategy, vocabulary and special tokens."""
    return Description(
        source=tokenizer.source,
        family=tokenizer.family,
        strategy=tokenizer.strategy.name,
        reason=tokenizer.strategy.reason,
        vocab_size=tokenizer.vocab_size,
        special_tokens=tokenizer.special_tokens,
        added_tokens=len(tokenizer.added_tokens),
        fingerprint=tokenizer.fingerprint,
    )


def measure(
    tokenizers: dict[str, Tokenizer],
    corpus: str,
    *,
    text_field: str | None = None,
    threads: int | None = None,
    most_bytes: int | None = None,
) -> list[Measurement]:
    """Every tokenizer over one corpus (a file, glob or directory), read once."""
    results = {
        name: Measurement(name, corpus, vocab_size=tokenizer.vocab_size)
        for name, tokenizer in tokenizers.items()
    }
    used = {name: np.zeros(tokenizer.vocab_size, bool) for name, tokenizer in tokenizers.items()}
    for texts in _read_corpus(corpus, text_field, most_bytes):
        data, characters, words = _measure_texts(texts)
        for name, tokenizer in tokenizers.items():
            result = results[name]
            start = time.perf_counter()
            batch = tokenizer.encode_batch(texts, special="text", threads=threads)
            result.seconds += time.perf_counter() - start
            used[name][batch.ids] = True
            result.documents += len(texts)
            result.bytes += data
            result.characters += characters
            result.words += words
            result.tokens += len(batch.ids)
    for name, result in results.items():
        result.used = int(used[name].sum())
    return list(results.values())


def extrapolate(result: Measurement, total_bytes: float) -> None:
    """Tokens, seconds and bytes on disk that a corpus of `total_bytes` of such text would need."""
    scale = _ratio(total_bytes, result.bytes)
    width = 2 if result.vocab_size <= 1 << 16 else 4
    tokens = result.tokens * scale
    result.extrapolated = {
        "bytes": total_bytes,
        "tokens": tokens,
        "seconds": result.seconds * scale,
        "disk_bytes": tokens * width,
    }


def _read_corpus(corpus: str, text_field: str | None, most_bytes: int | None) -> Iterator[Any]:
    files = discover(SourceConfig(inputs=(corpus,), text_field=text_field))
    source, _ = settle(SourceConfig(inputs=(corpus,), text_field=text_field), files)
    seen = 0
    for file in files:
        for part in cut_ranges(file, 64 << 20):
            for block in read_blocks(file, part, source, block_bytes=_BLOCK):
                yield block.texts.to_arrow()
                seen += block.texts.nbytes
                if most_bytes is not None and seen >= most_bytes:
                    return


def _measure_texts(texts: Any) -> tuple[int, int, int]:
    """UTF-8 bytes, characters and words of an Arrow array of texts."""
    import pyarrow.compute as pc

    data = pc.sum(pc.binary_length(texts)).as_py() or 0
    characters = pc.sum(pc.utf8_length(texts)).as_py() or 0
    words = sum(len(_WORD.findall(text.as_py())) for text in texts)
    return data, characters, words


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom else 0.0
