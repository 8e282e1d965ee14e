"""Describe vocabularies: scripts of tokens, figures on a corpus, tokens of a text, merges of a token."""

from __future__ import annotations

import re
import time
import unicodedata
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tokenmill.errors import InputError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import cut_ranges, discover, infer_fields, read_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tokenmill.tokenizer.recipe import Model
    from tokenmill.tokenizer.tokenizer import Tokenizer


PARTIAL = "part of a character"
WORD = re.compile(r"\w+")
BLOCK_BYTES = 4 << 20
# The first word of a character's Unicode name, where it names a script that users look for.
KNOWN = {
    name.upper(): name
    for name in (
        *("Latin", "Hangul", "Cyrillic", "Greek", "Arabic", "Hebrew", "Devanagari", "Bengali", "Tamil"),
        *("Thai", "Georgian", "Armenian", "Ethiopic", "Khmer"),
    )
}
KNOWN |= {"CJK": "Han", "HIRAGANA": "Kana", "KATAKANA": "Kana"}
KNOWN |= {"FULLWIDTH": "punctuation", "IDEOGRAPHIC": "punctuation"}


def script_of(token: bytes) -> str:
    """Return the script of a token; letters decide over digits, digits over the rest."""
    if token.isascii():
        return _find_ascii_script(token)
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return PARTIAL
    counts = Counter(map(_find_character_script, text))
    for plain in ("white space", "punctuation", "symbols", "digits"):
        if len(counts) > 1:
            counts.pop(plain, None)
    return max(sorted(counts), key=counts.__getitem__)


def count_scripts(tokens: Iterable[tuple[bytes, int]]) -> list[dict[str, Any]]:
    """Return script, tokens and bytes of tokens with their counts, the script with most bytes first."""
    totals: dict[str, list[int]] = {}
    for token, count in tokens:
        total = totals.setdefault(script_of(token), [0, 0])
        total[0] += count
        total[1] += count * len(token)
    rows = [{"script": name, "tokens": number, "bytes": size} for name, (number, size) in totals.items()]
    return sorted(rows, key=lambda row: (-row["bytes"], row["script"]))


def _find_ascii_script(token: bytes) -> str:
    """Return the script of an ASCII token, ten times as fast as by looking at each letter."""
    core = token.strip()
    if not core:
        return "white space" if token else "empty"
    if core.isalpha() or re.search(rb"[A-Za-z]", core):
        return "Latin"
    return "digits" if re.search(rb"[0-9]", core) else "punctuation"


@lru_cache(maxsize=1 << 16)
def _find_character_script(character: str) -> str:
    category = unicodedata.category(character)
    if category.startswith(("L", "M")):
        return KNOWN.get(unicodedata.name(character, "").split(" ")[0], "other letters")
    if category.startswith("N"):
        return "digits"
    if category.startswith("Z") or character in "\t\n\r\v\f":
        return "white space"
    return "punctuation" if character.isascii() or category.startswith("P") else "symbols"


@dataclass
class Measurement:
    """The counts of one tokenizer on one corpus."""

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
        """Return the counts and the rates that people compare."""
        unused = self.vocab_size - self.used
        return asdict(self) | {
            "bytes_per_token": self.bytes / max(self.tokens, 1),
            "tokens_per_word": self.tokens / max(self.words, 1),
            "tokens_per_character": self.tokens / max(self.characters, 1),
            "unused": unused,
            "unused_share": unused / max(self.vocab_size, 1),
            "megabytes_per_second": self.bytes / 1e6 / max(self.seconds, 1e-9),
        }


def describe(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return family, strategy, vocabulary and special tokens."""
    return {
        "source": tokenizer.source,
        "family": tokenizer.family,
        "strategy": tokenizer.strategy.name,
        "reason": tokenizer.strategy.reason,
        "vocab_size": tokenizer.vocab_size,
        "special_tokens": tokenizer.special_tokens,
        "added_tokens": len(tokenizer.added_tokens),
        "fingerprint": tokenizer.fingerprint,
    }


def measure(
    tokenizers: dict[str, Tokenizer],
    corpus: str,
    *,
    text_field: str | None = None,
    threads: int | None = None,
    most_bytes: int | None = None,
) -> list[Measurement]:
    """Encode one corpus (a file, glob or directory) with every tokenizer, reading it once."""
    import pyarrow.compute as pc  # here, since a job on plain files does not need Arrow

    results = {
        name: Measurement(name, corpus, vocab_size=tokenizer.vocab_size)
        for name, tokenizer in tokenizers.items()
    }
    used = {name: np.zeros(tokenizer.vocab_size, bool) for name, tokenizer in tokenizers.items()}
    for texts in _read_corpus(corpus, text_field, most_bytes):
        size, characters = (pc.sum(count(texts)).as_py() or 0 for count in (pc.binary_length, pc.utf8_length))
        words = sum(len(WORD.findall(text.as_py())) for text in texts)
        for name, tokenizer in tokenizers.items():
            result = results[name]
            start = time.perf_counter()
            batch = tokenizer.encode_batch(texts, special="text", threads=threads)
            result.seconds += time.perf_counter() - start
            used[name][batch.ids] = True
            result.documents += len(texts)
            result.bytes += size
            result.characters += characters
            result.words += words
            result.tokens += len(batch.ids)
    for name, result in results.items():
        result.used = int(used[name].sum())
    return list(results.values())


def extrapolate(result: Measurement, total_bytes: float) -> None:
    """Estimate tokens, seconds and bytes on disk of a corpus of `total_bytes` of such text."""
    scale = total_bytes / max(result.bytes, 1)
    width = 2 if result.vocab_size <= 1 << 16 else 4
    tokens = result.tokens * scale
    result.extrapolated = {
        "bytes": total_bytes,
        "tokens": tokens,
        "seconds": result.seconds * scale,
        "disk_bytes": tokens * width,
    }


def _read_corpus(corpus: str, text_field: str | None, most_bytes: int | None) -> Iterator[Any]:
    source = SourceConfig(inputs=(corpus,), text_field=text_field)
    files = discover(source)
    source, _ = infer_fields(source, files)
    seen = 0
    for file in files:
        for part in cut_ranges(file, 64 << 20):
            for block in read_blocks(file, part, source, block_bytes=BLOCK_BYTES, parts=True):
                yield block.texts.to_arrow()
                seen += block.texts.nbytes
                if most_bytes is not None and seen >= most_bytes:
                    return


def explain(tokenizer: Tokenizer, text: str, *, special: Literal["text", "parse"]) -> dict[str, Any]:
    """Return ids with the byte at which each ends, pieces, counts by script, and the round trip.

    `normalized` is the text that the tokens spell, or None if that is the text itself.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start} is a lone surrogate, which is not text; paste it again or remove it"
        ) from None
    ids = tokenizer.encode(text, special=special)
    counts = Counter(ids)
    spellings = {token: tokenizer.token_bytes(token) for token in counts}
    spelled = tokenizer.decode_bytes(ids)
    specials = set(tokenizer.special_tokens.values())
    return {
        "ids": ids,
        "ends": list(accumulate(len(spellings[token]) for token in ids)),
        "special": [index for index, token in enumerate(ids) if token in specials],
        "piece_ends": tokenizer.engine.piece_ends(text, special) or [],
        "normalized": None if spelled == data else spelled.decode("utf-8", "replace"),
        "round_trip": tokenizer.decode(ids) == text,
        "tokens": len(ids),
        "bytes": len(data),
        "characters": len(text),
        "vocab_size": tokenizer.vocab_size,
        "strategy": tokenizer.strategy.name,
        "scripts": count_scripts((spellings[token], count) for token, count in counts.items()),
    }


def explain_merges(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    """Return the rank of the last merge of a token, and its steps, such as [t, h, e], [th, e], [the].

    The rank of a token that no merge makes is None.
    """
    data, model = tokenizer.token_bytes(token), tokenizer.recipe.model
    steps, rank = [[token]], None
    if model is not None and token not in tokenizer.added_tokens.values():
        steps, rank = _replay_merges(tokenizer, model, data)
    texts = {id_: tokenizer.token_bytes(id_).decode("utf-8", "backslashreplace") for id_ in chain(*steps)}
    return {
        "rank": rank if steps[-1] == [token] else None,
        "steps": [[{"id": id_, "text": texts[id_]} for id_ in step] for step in steps],
    }


def _replay_merges(tokenizer: Tokenizer, model: Model, data: bytes) -> tuple[list[list[int]], int | None]:
    """Merge from single bytes, or characters for a SentencePiece-style vocabulary."""
    by_pair = None if model.merges is None else {pair: rank for rank, pair in enumerate(model.merges)}
    order = {token: rank for rank, token in enumerate(model.rank_order)}
    parts = [bytes([byte]) for byte in data]
    if model.kind != "bytes":
        parts = [character.encode() for character in data.decode("utf-8", "replace")]
    symbols = [found for part in parts if (found := tokenizer.id_of(part)) is not None]
    steps, last = [symbols], None
    while True:
        known = []
        for at, pair in enumerate(pairwise(symbols)):
            merged = tokenizer.id_of(tokenizer.token_bytes(pair[0]) + tokenizer.token_bytes(pair[1]))
            if merged is not None:
                rank = order.get(merged) if by_pair is None else by_pair.get(pair)
                known += [] if rank is None else [(rank, at, merged)]
        if not known:
            return steps, last
        last, at, merged = min(known)
        symbols = [*symbols[:at], merged, *symbols[at + 2 :]]
        steps.append(symbols)
