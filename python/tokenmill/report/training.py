"""Report of a training run: held-out figures, the curve of sizes, scripts, rare and unreachable tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.durable import publish_bytes, readable_json
from tokenmill.base.words import size as format_size
from tokenmill.errors import DatasetError
from tokenmill.report.card import render_vocabulary
from tokenmill.report.page import cards, draw_plot, grid, page, paragraph, render_settings, section, table
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.counting import Counted
from tokenmill.training.merging import TRAINING, Merged
from tokenmill.vocab.card import RARE, describe_vocabulary, list_tokens, measure_efficiency, spell
from tokenmill.vocab.scripts import count_scripts

REPORT_JSON, REPORT_HTML = "report.json", "report.html"
POINTS = 60
# The vocabulary is large enough if `STEP` more tokens save less than this share of all tokens.
STEP, LEAST_GAIN = 1000, 0.001
MOST_RARE = 40


def measure_training(
    tokenizer: Tokenizer, merged: Merged, counted: Counted, ladder: Sequence[int]
) -> dict[str, Any]:
    """Return figures that are available only during training, for `training.json`.

    Each merge replaces two tokens by one, so its count is the number of tokens saved. A token remains in the
    text as often as merges produce it minus as often as merges consume it.
    """
    gains = np.asarray(merged.counts, np.float64)
    left = counted.bytes - np.cumsum(gains)
    first = tokenizer.vocab_size - len(gains)
    places = np.unique(np.geomspace(1, max(len(gains), 1), POINTS).astype(int))[: len(gains)] - 1
    steps = np.add.reduceat(gains, np.arange(0, len(gains), STEP)) if len(gains) else gains
    before = counted.bytes - np.cumsum(steps) + steps
    poor = np.flatnonzero(steps / np.maximum(before, 1) < LEAST_GAIN)
    curve = [[first + int(at) + 1, round(counted.bytes / max(left[at], 1.0), 4)] for at in places]
    tokens, pairs = merged.tokens[:], merged.merges[:]
    ids = {token: id_ for id_, token in enumerate(tokens)}
    counts, changes = np.zeros(len(tokens), np.int64), np.asarray(merged.counts).astype(np.int64)
    np.add.at(counts, np.array([ids[tokens[one] + tokens[other]] for one, other in pairs], int), changes)
    np.subtract.at(counts, np.array(pairs, int).reshape(-1, 2), changes[:, None])
    made = counts[256:]
    rare = np.flatnonzero(made < RARE)
    order = rare[np.lexsort((made[rare], made[rare] <= 0))][:MOST_RARE]  # those that occur come first
    return {
        "curve": curve,
        "ladder": list(ladder),
        "enough": first + STEP * int(poor[0]) if len(poor) else None,
        "rare": len(rare),
        "only_steps": int((made <= 0).sum()),
        "rare_tokens": [
            {"id": first + int(at), "token": spell(merged.tokens[256 + at]), "count": max(0, int(made[at]))}
            for at in order
        ],
        "sample": _measure_sample(tokenizer, counted.sample),
        "counts": np.maximum(made, 0).tolist(),
    }


def load_training_counts(root: Path, tokenizer: Tokenizer) -> dict[int, int]:
    """Return how often each merged token remains in the training text, by id; empty if that is unknown."""
    try:
        counts = json.loads((root / TRAINING).read_bytes())["report"]["counts"]
    except (OSError, ValueError, KeyError):
        return {}
    return dict(enumerate(counts, tokenizer.vocab_size - len(counts)))


def _measure_sample(tokenizer: Tokenizer, texts: list[str]) -> dict[str, Any]:
    """Return the figures of the tokenizer on texts, in total and by script."""
    counts, words = np.zeros(tokenizer.vocab_size, np.int64), 0
    for text in texts:  # one at a time: a batch would allocate the full cache of the encoder (16 MB)
        counts += np.bincount(tokenizer.encode(text, special="text"), minlength=len(counts))
        words += len(text.split())
    tokens, size = int(counts.sum()), sum(len(text.encode()) for text in texts)
    used = np.flatnonzero(counts).tolist()
    renyi, shannon = measure_efficiency(counts)
    return {
        "documents": len(texts),
        "bytes": size,
        "bytes_per_token": size / max(tokens, 1),
        "tokens_per_word": tokens / max(words, 1),
        "renyi_efficiency": renyi,
        "shannon_efficiency": shannon,
        "scripts": count_scripts((tokenizer.token_bytes(id_), int(counts[id_])) for id_ in used),
    }


def write_training_report(root: Path, tokenizer: Tokenizer) -> None:
    """Write `report.json` and `report.html` of a trained tokenizer into its directory."""
    try:
        figures = json.loads((root / TRAINING).read_bytes())
        del figures["report"]["counts"]
    except (OSError, ValueError, KeyError) as error:
        raise DatasetError(f"{root / TRAINING} has no figures for a report ({error}); train again") from error
    data = {
        "report_version": 2,
        "kind": "train",
        "name": root.name,
        "figures": figures,
        "vocabulary": describe_vocabulary(tokenizer, list_tokens(tokenizer)),
    }
    publish_bytes(root / REPORT_JSON, readable_json(data))
    publish_bytes(root / REPORT_HTML, render_training(data))


def render_training(data: dict[str, Any]) -> bytes:
    """Return the HTML of the report of a training."""
    figures, vocabulary = data["figures"], data["vocabulary"]
    own, sample = figures["report"], figures["report"]["sample"]
    lead = f"{figures['pieces']:,} pieces, {figures['unique']:,} of them different; {figures['stopped']}"
    big = {
        "vocabulary": figures["vocab_size"],
        "read": format_size(figures["bytes"]),
        "documents": figures["documents"],
        "seconds": f"{figures['seconds']['total']:,.2f}",
    }
    if sample["documents"]:
        lead += f". Figures are on {format_size(sample['bytes'])} of text {figures['sample']}"
        big |= {
            "bytes per token": sample["bytes_per_token"],
            "tokens per word": sample["tokens_per_word"],
            "Rényi efficiency": sample["renyi_efficiency"],
            "Shannon efficiency": sample["shannon_efficiency"],
        }
    scripts = [(row["script"], row["tokens"], row["bytes_per_token"]) for row in sample["scripts"]]
    rare = {
        "rare": own["rare_tokens"],
        "rare_note": f"{own['rare']:,} merged tokens are left in the training text fewer than {RARE} times; "
        f"{own['only_steps']:,} of them never, being only steps to longer ones.",
    }
    parts = [
        _render_curve(own),
        section("Held-out figures by script", table(("script", "tokens", "bytes/token"), scripts, bar=2)),
        *render_vocabulary(vocabulary | rare),
        render_settings({name: value for name, value in figures.items() if name != "report"}),
    ]
    return page(f"Training of {data['name']}", lead, [cards(big), grid(*parts)])


def _render_curve(own: dict[str, Any]) -> str:
    curve = own["curve"]
    if not curve:
        return ""
    note = f"Up to the largest size, every {STEP:,} tokens save {LEAST_GAIN:.1%} of all tokens or more."
    if own["enough"] is not None:
        note = f"After {own['enough']:,} tokens, {STEP:,} more save less than {LEAST_GAIN:.1%} of all tokens."
    plot = draw_plot("tokens in the vocabulary", "bytes per token, training text", curve, marks=own["ladder"])
    shown = table(("size", "bytes per token"), curve, folded="As a table")
    return section("What each size gains", plot, paragraph(note, soft=True), shown)
