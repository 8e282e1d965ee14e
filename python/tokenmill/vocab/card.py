"""`tokenmill.card`: figures for comparing vocabularies, as plain data.

A corpus is read in blocks, which are encoded by the core and counted by NumPy.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ConfigError, InputError
from tokenmill.settings.schema import SourceConfig
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.counting import open_corpus
from tokenmill.vocab.scripts import script_of
from tokenmill.vocab.tensors import find_untrained, write_arrays

if TYPE_CHECKING:
    import pyarrow as pa

ALPHA = 2.5
RARE = 10
TOP = 40
WORDS = r"[\pL\pN_]+"
LONGEST_SHOWN = 200  # characters of a token; one may be as long as the longest piece
# A control character, which does not merge with an adjacent word, number or space.
NEIGHBOUR = "\x01"


def card(
    tokenizers: str | Path | Tokenizer | Sequence[str | Path | Tokenizer],
    on: Mapping[str, Any] | None = None,
    *,
    parallel: str | None = None,
    model: str | Path | None = None,
    threads: int | None = None,
    **source: Any,
) -> dict[str, Any]:
    """Return the properties of vocabularies and their figures on texts.

    >>> import tokenmill
    >>> texts = ["low lower lowest"] * 9
    >>> tokenizer = tokenmill.train_from_iterator(texts, 260, progress=False)
    >>> found = tokenmill.card(tokenizer, {"en": iter(texts)})
    >>> round(found["tokenizers"][0]["corpora"]["en"]["tokens_per_word"], 2)
    2.67

    Args:
        tokenizers: A tokenizer, an argument of `Tokenizer.load`, or a list of these.
        on: Texts by name: `{"en": "en.jsonl", "ko": "ko.jsonl"}`, as `train` takes them.
        parallel: The field with the id that translations of a document share, for parity.
        model: A directory with safetensors, whose embedding rows are compared with untrained ones.
        threads: Threads for encoding; all usable cores by default.
        **source: Settings of the source, such as `text_field`.

    Returns:
        `{"version": 1, "corpora": {...}, "tokenizers": [...], "overlap": [...]}`, ready for JSON. Each
        tokenizer has figures for each corpus, and complete lists of unreachable, unused and rare tokens.

    Raises:
        ConfigError: `parallel` without two corpora, or `model` with several tokenizers.
        InputError: A corpus has no text, or no document id is in all corpora.
    """
    given = [tokenizers] if isinstance(tokenizers, str | Path | Tokenizer) else list(tokenizers)
    loaded = [each if isinstance(each, Tokenizer) else Tokenizer.load(each) for each in given]
    names = name_apart([each.source for each in loaded])
    if parallel is not None and len(on or {}) < 2:
        raise ConfigError("parallel compares languages; give two corpora or more")
    if model is not None and len(loaded) != 1:
        raise ConfigError("model goes with one tokenizer, the model's own")
    figures: list[dict[str, Any]] = [{} for _ in loaded]
    counts = [np.zeros(each.vocab_size, np.int64) for each in loaded]
    lengths: list[dict[str, dict[str, int]]] = [{} for _ in loaded]
    corpora: dict[str, Any] = {}
    for corpus, inputs in (on or {}).items():
        settings = SourceConfig(**source, id_field=parallel)
        corpora[corpus], results = _measure(loaded, inputs, settings, threads)
        if not corpora[corpus]["bytes"]:
            raise InputError(f"the corpus {corpus} contains no text; check its text field")
        for nth, (found, documents) in enumerate(results):
            figures[nth][corpus] = _describe_use(corpora[corpus], found)
            counts[nth] += found
            lengths[nth][corpus] = documents
    tokens = [list_tokens(each) for each in loaded]
    cards = [
        describe_vocabulary(each, tokens[nth], counts[nth] if on else None)
        | {"name": names[nth], "corpora": figures[nth]}
        | ({"parity": _compare_languages(lengths[nth])} if parallel else {})
        | ({"untrained": find_untrained(Path(model), each)} if model else {})
        for nth, each in enumerate(loaded)
    ]
    return {"version": 1, "corpora": corpora, "tokenizers": cards, "overlap": _compare(names, tokens)}


def name_apart(sources: Sequence[str]) -> list[str]:
    """Return the shortest ends of paths that differ: `a/tok/tokenizer.json`, `b/tok` -> `a/tok`, `b/tok`."""
    parts = [Path(source.removesuffix(".gz").removesuffix(".tiktoken")).parts for source in sources]
    parts = [each[:-1] if len(each) > 1 and each[-1] == "tokenizer.json" else each for each in parts]
    for length in range(1, max(map(len, parts)) + 1):
        found = ["/".join(each[-length:]) for each in parts]
        if len(set(found)) == len(found):
            return found
    return [f"{source} ({nth + 1})" for nth, source in enumerate(sources)]


def _measure(
    tokenizers: list[Tokenizer], inputs: Any, settings: SourceConfig, threads: int | None
) -> tuple[dict[str, int], list[tuple[NDArray[np.int64], dict[str, int]]]]:
    """Read a corpus once; return its size, and per tokenizer the counts of ids and tokens per document."""
    totals = Counter(documents=0, bytes=0, characters=0, words=0)
    results = [(np.zeros(each.vocab_size, np.int64), dict[str, int]()) for each in tokenizers]
    # Arrow counts words while the core encodes; both release the GIL.
    with open_corpus(inputs, settings) as corpus, ThreadPoolExecutor(1) as beside:
        for block in corpus.read_blocks():
            texts = block.texts.to_arrow()
            sizes = beside.submit(_count_words, texts)
            totals.update(documents=len(texts), bytes=block.texts.nbytes)
            names = block.ids.to_pylist() if settings.id_field and block.ids is not None else None
            for tokenizer, (counts, lengths) in zip(tokenizers, results, strict=True):
                batch = tokenizer.encode_batch(texts, special="text", threads=threads)
                np.add(counts, np.bincount(batch.ids, minlength=len(counts)), out=counts)
                if names is not None:
                    lengths.update(zip(names, np.diff(batch.offsets).tolist(), strict=True))
            totals.update(sizes.result())
    return dict(totals), results


def _count_words(texts: pa.Array) -> dict[str, int]:
    import pyarrow.compute as pc

    counts = {"characters": pc.utf8_length(texts), "words": pc.count_substring_regex(texts, WORDS)}
    return {name: pc.sum(found).as_py() or 0 for name, found in counts.items()}


def _describe_use(corpus: dict[str, int], counts: NDArray[np.int64]) -> dict[str, Any]:
    """Return the rates of one tokenizer on one corpus."""
    tokens = int(counts.sum())
    used = int((counts > 0).sum())
    renyi, shannon = measure_efficiency(counts)
    return {
        "tokens": tokens,
        "bytes_per_token": corpus["bytes"] / max(tokens, 1),
        "characters_per_token": corpus["characters"] / max(tokens, 1),
        "tokens_per_word": tokens / max(corpus["words"], 1),
        "renyi_efficiency": renyi,
        "shannon_efficiency": shannon,
        "used": used,
        "used_share": used / len(counts),
    }


def measure_efficiency(counts: NDArray[np.int64]) -> tuple[float, float]:
    """Return Rényi entropy (alpha 2.5) and Shannon entropy, divided by the log of the vocabulary size."""
    shares = counts[counts > 0] / max(counts.sum(), 1)
    most = np.log(max(len(counts), 2))
    if not len(shares):
        return 0.0, 0.0
    renyi = np.log((shares**ALPHA).sum()) / (1 - ALPHA)
    return float(renyi / most), float(-(shares * np.log(shares)).sum() / most)


def measure_gini(values: Sequence[float]) -> float:
    """Return the Gini coefficient: 0 if all values are equal, near 1 if one value dominates."""
    ordered = np.sort(np.asarray(values, np.float64))
    ranks = 2 * np.arange(1, len(ordered) + 1) - len(ordered) - 1
    return float((ranks * ordered).sum() / (len(ordered) * ordered.sum())) if ordered.sum() else 0.0


def _compare_languages(lengths: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Return the tokens of each language for the shared documents, and the ratios to the first language."""
    shared = set.intersection(*(set(found) for found in lengths.values())) - {None}
    if not shared:
        raise InputError("no document has an id that is in all corpora; name the field they share")
    tokens = {name: sum(found[each] for each in shared) for name, found in lengths.items()}
    first = next(iter(tokens))
    return {
        "documents": len(shared),
        "reference": first,
        "tokens": tokens,
        "ratio": {name: count / max(tokens[first], 1) for name, count in tokens.items()},
        "gini": measure_gini(list(tokens.values())),
    }


def spell(token: bytes) -> str:
    """Return at most `LONGEST_SHOWN` characters of a token as text."""
    text = token[: 4 * LONGEST_SHOWN + 4].decode("utf-8", "backslashreplace")
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def list_tokens(tokenizer: Tokenizer) -> list[bytes | None]:
    """Return the bytes of every id; None for an id without a token."""
    return list(map(tokenizer.engine.token_bytes, range(tokenizer.vocab_size)))


def describe_vocabulary(
    tokenizer: Tokenizer, tokens: list[bytes | None], counts: NDArray[np.int64] | None = None
) -> dict[str, Any]:
    """Return the properties of a vocabulary; with `counts`, also unused, rare and frequent tokens."""
    added = set(tokenizer.added_tokens.values())
    own = [(id_, token) for id_, token in enumerate(tokens) if token is not None and id_ not in added]
    scripts = Counter(script_of(token) for _, token in own)
    sizes = np.array([len(token) for _, token in own] or [0])
    texts = {}
    for id_, token in own:
        with suppress(UnicodeDecodeError):
            texts[id_] = token.decode()
    unreachable, inside = find_unreachable(tokenizer, texts)
    found: dict[str, Any] = describe(tokenizer) | {
        "llama_cpp": recognise(tokenizer),
        "ids_without_token": sum(token is None for token in tokens),
        "scripts": dict(scripts.most_common()),
        "lengths": np.bincount(sizes).tolist(),
        "longest": [_show(tokens, own[nth][0]) for nth in np.argsort(-sizes, kind="stable")[:20].tolist()],
        "partial": [id_ for id_, _ in own if id_ not in texts],
        "unreachable": unreachable,
        "only_inside_text": inside,
    }
    if counts is not None:
        rare = [id_ for id_, _ in own if 0 < counts[id_] < RARE]
        found["unused"] = [_show(tokens, id_) for id_, _ in own if not counts[id_]]
        found["rare"] = [_show(tokens, id_, counts) for id_ in sorted(rare, key=lambda id_: counts[id_])]
        use = describe_counts(counts, tokenizer)
        found |= {"frequent": use["top"], "rank_frequency": use["rank_frequency"]}
    return found


def describe_counts(counts: NDArray[np.int64], tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Return used and unused ids, the most frequent tokens, and the counts of about 60 ranks.

    Without a tokenizer a token is shown by its id.
    """

    def show(id_: int) -> str:
        token = tokenizer.engine.token_bytes(id_) if tokenizer else None
        return f"#{id_}" if token is None else spell(token)

    order = np.argsort(-counts, kind="stable")
    used = int((counts > 0).sum())
    ranks = np.unique(np.geomspace(1, used, 60).astype(int)).tolist() if used else []
    return {
        "size": len(counts),
        "used": used,
        "unused": len(counts) - used,
        "unused_sample": [show(id_) for id_ in np.flatnonzero(counts == 0)[:TOP].tolist()],
        "top": [
            {"id": id_, "token": show(id_), "count": int(counts[id_])}
            for id_ in order[: min(TOP, used)].tolist()
        ],
        "rank_frequency": [{"rank": rank, "count": int(counts[order[rank - 1]])} for rank in ranks],
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


def _show(tokens: list[bytes | None], id_: int, counts: NDArray[np.int64] | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"id": id_, "token": spell(tokens[id_] or b"")}
    return row if counts is None else row | {"count": int(counts[id_])}


def find_unreachable(
    tokenizer: Tokenizer, texts: Mapping[int, str]
) -> tuple[list[dict[str, Any]], list[int]]:
    r"""Encode the text of every token; return the tokens that it does not produce, with the ids it produces.

    The second list has the ids that occur only after other text, such as `\n//` of o200k, which follows
    punctuation. Tokens that are parts of characters, and single bytes of a vocabulary with byte
    fallback, are not tested.
    """
    model = tokenizer.recipe.model
    if model is not None and model.byte_fallback:
        texts = {id_: text for id_, text in texts.items() if len(text) > 1 or not text.isascii()}
    alone = _find_changed(tokenizer, texts, "")
    never = _find_changed(tokenizer, {id_: texts[id_] for id_ in alone}, NEIGHBOUR)
    rows = [
        {
            "id": id_,
            "token": texts[id_],
            "encodes_to": [{"id": each, "token": spell(tokenizer.token_bytes(each))} for each in alone[id_]],
        }
        for id_ in never
    ]
    return rows, [id_ for id_ in alone if id_ not in never]


def _find_changed(tokenizer: Tokenizer, texts: Mapping[int, str], before: str) -> dict[int, list[int]]:
    """Return the ids whose text, after `before`, ends in other ids than the token's own, and those ids."""
    skip = len(tokenizer.encode(before, special="text"))
    batch = tokenizer.encode_batch([before + text for text in texts.values()], special="text")
    lengths, ids = np.diff(batch.offsets), np.array(list(texts), np.int64)
    last = batch.ids[batch.offsets[1:] - 1].astype(np.int64) if len(batch.ids) else ids
    changed = np.flatnonzero((lengths != skip + 1) | (last != ids)).tolist()
    return {int(ids[place]): batch[place].tolist()[skip:] for place in changed}


def recognise(tokenizer: Tokenizer) -> dict[str, str | None]:
    """Return the hash by which llama.cpp identifies a pre-tokenizer, and its name there or None.

    llama.cpp encodes a fixed text and takes the SHA-256 of the ids, written as a Python list.
    """
    facts = json.loads(Path(__file__).with_name("llama_cpp.json").read_text(encoding="utf-8"))
    ids = tokenizer.encode(facts["text"], add_special_tokens=True)
    digest = hashlib.sha256(str(ids).encode()).hexdigest()
    return {"hash": digest, "name": facts["known"].get(digest)}


def _compare(names: list[str], tokens: list[list[bytes | None]]) -> list[dict[str, Any]]:
    """Return how many tokens each pair of vocabularies has in common, by their bytes."""
    sets = [set(each) - {None} for each in tokens]
    found = []
    for (a, x), (b, y) in combinations(zip(names, sets, strict=True), 2):
        shared = len(x & y)
        found.append(
            {"a": a, "b": b, "shared": shared, "share_of_a": shared / len(x), "share_of_b": shared / len(y)}
        )
    return found


def write_draft(
    tokenizer: Tokenizer, inputs: Any, size: int, path: str | Path, **source: Any
) -> dict[str, Any]:
    """Choose a draft vocabulary by the counts of ids in texts, and write its id maps as safetensors.

    It has the special tokens, then the most frequent ids; ties by smaller id. `t2d` marks the chosen ids of
    the target; `d2t[i]` is the difference of the target id and draft id `i`.
    """
    special = sorted(tokenizer.special_tokens.values())
    if not len(special) < size <= tokenizer.vocab_size:
        limits = f"more than {len(special):,} and at most {tokenizer.vocab_size:,}"
        raise ConfigError(f"draft is {size:,}; expected {limits}")
    _, [(counts, _)] = _measure([tokenizer], inputs, SourceConfig(**source), None)
    weights = counts.astype(np.float64)
    weights[special] = np.inf
    chosen = np.sort(np.argsort(-weights, kind="stable")[:size])
    marks = np.zeros(len(counts), bool)
    marks[chosen] = True
    write_arrays(Path(path), {"d2t": chosen - np.arange(size), "t2d": marks})
    covered = float(counts[chosen].sum() / max(counts.sum(), 1))
    return {"output": str(path), "draft": size, "target": len(counts), "coverage": covered}
