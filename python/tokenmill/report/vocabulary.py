"""Which script a token is written in, from its bytes alone: no second pass over the text."""

from __future__ import annotations

import re
import time
import unicodedata
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import pairwise
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
# The first word of a character's Unicode name, where it names a script that users look for.
KNOWN = {
    "LATIN": "Latin",
    "HANGUL": "Hangul",
    "CJK": "Han",
    "HIRAGANA": "Kana",
    "KATAKANA": "Kana",
    "CYRILLIC": "Cyrillic",
    "GREEK": "Greek",
    "ARABIC": "Arabic",
    "HEBREW": "Hebrew",
    "DEVANAGARI": "Devanagari",
    "BENGALI": "Bengali",
    "TAMIL": "Tamil",
    "THAI": "Thai",
    "GEORGIAN": "Georgian",
    "ARMENIAN": "Armenian",
    "ETHIOPIC": "Ethiopic",
    "KHMER": "Khmer",
    "FULLWIDTH": "punctuation",
    "IDEOGRAPHIC": "punctuation",
}


def script_of(token: bytes) -> str:
    """`script_of("한국".encode())` -> 'Hangul'; letters decide over digits, digits over the rest."""
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
    """`[{"script": "Hangul", "tokens": 3, "bytes": 18}, …]` of tokens and their counts, most bytes first."""
    totals: dict[str, list[int]] = {}
    for token, count in tokens:
        total = totals.setdefault(script_of(token), [0, 0])
        total[0] += count
        total[1] += count * len(token)
    rows = [{"script": name, "tokens": number, "bytes": size} for name, (number, size) in totals.items()]
    return sorted(rows, key=lambda row: (-row["bytes"], row["script"]))


def _find_ascii_script(token: bytes) -> str:
    """Most tokens of most vocabularies, ten times as fast as a look at each letter."""
    core = token.strip()
    if not core:
        return "white space" if token else "empty"
    if core.isalpha() or _LETTER(core):
        return "Latin"
    return "digits" if _DIGIT(core) else "punctuation"


_LETTER = re.compile(rb"[A-Za-z]").search
_DIGIT = re.compile(rb"[0-9]").search


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
    source, _ = infer_fields(SourceConfig(inputs=(corpus,), text_field=text_field), files)
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


Pair = tuple[int, int]


def explain(tokenizer: Tokenizer, text: str, *, special: Literal["text", "parse"]) -> dict[str, Any]:
    """Ids with the byte at which each ends, pieces, what a normalizer changed, and the round trip.

    `normalized` is the text that the tokens actually spell, or None where that is the text itself.
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
    widths = {token: len(spelling) for token, spelling in spellings.items()}
    ends, at = [], 0
    for token in ids:
        at += widths[token]
        ends.append(at)
    spelled = tokenizer.decode_bytes(ids)
    specials = set(tokenizer.special_tokens.values())
    pieces = tokenizer.engine.piece_ends(text, special)
    return {
        "ids": ids,
        "ends": ends,
        "special": [index for index, token in enumerate(ids) if token in specials],
        "piece_ends": [] if pieces is None else pieces,
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
    """`{"rank": 7, "steps": [[t, h, e], [th, e], [the]]}`; a token that no merge makes has rank None."""
    data = tokenizer.token_bytes(token)
    model = tokenizer.recipe.model
    if model is None or token in tokenizer.added_tokens.values():
        return {"rank": None, "steps": [[_describe_token(tokenizer, token)]]}
    table = MergeTable(tokenizer, model)  # some 20 ms for 200,000 merges: no need to keep it
    symbols = _split_symbols(tokenizer, model, data)
    steps, rank = [symbols], None
    while len(symbols) > 1:
        ranked = [(table.find(pair), at) for at, pair in enumerate(pairwise(symbols))]
        known = [(found[0], at, found[1]) for found, at in ranked if found is not None]
        if not known:
            break
        rank, at, merged = min(known)
        symbols = [*symbols[:at], merged, *symbols[at + 2 :]]
        steps.append(symbols)
    whole = symbols == [token]
    return {
        "rank": rank if whole else None,
        "steps": [[_describe_token(tokenizer, symbol) for symbol in step] for step in steps],
    }


class MergeTable:
    """`find(pair)` -> (rank, merged id), from a merge list or from the order of the tokens."""

    def __init__(self, tokenizer: Tokenizer, model: Model) -> None:
        self._tokenizer = tokenizer
        self._by_pair = (
            {pair: rank for rank, pair in enumerate(model.merges)} if model.merges is not None else None
        )
        self._order = {token: rank for rank, token in enumerate(model.rank_order)}

    def find(self, pair: Pair) -> tuple[int, int] | None:
        """None where the pair never merges."""
        left, right = (self._tokenizer.token_bytes(token) for token in pair)
        merged = self._tokenizer.id_of(left + right)
        if merged is None:
            return None
        rank = self._order.get(merged) if self._by_pair is None else self._by_pair.get(pair)
        return None if rank is None else (rank, merged)


def _split_symbols(tokenizer: Tokenizer, model: Model, data: bytes) -> list[int]:
    """Where merging starts: single bytes, or characters for a SentencePiece-style vocabulary."""
    if model.kind == "bytes":
        parts = [bytes([byte]) for byte in data]
    else:
        parts = [character.encode() for character in data.decode("utf-8", "replace")]
    found = [tokenizer.id_of(part) for part in parts]
    return [token for token in found if token is not None]


def _describe_token(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    return {"id": token, "text": tokenizer.token_bytes(token).decode("utf-8", "backslashreplace")}
