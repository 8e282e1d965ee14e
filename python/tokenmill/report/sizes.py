"""Measure what each vocabulary size gains, from counts alone: bytes per token by corpus and script.

All sizes are prefixes of one training: a vocabulary of 16,000 is the first part of the one of 128,000. One
run of merges serves them all, and every distinct piece is encoded with each size, so each figure is exact.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.durable import publish_bytes
from tokenmill.base.machine import measure
from tokenmill.errors import ConfigError
from tokenmill.report.cost import compute_cost
from tokenmill.report.page import Axis, draw_plot, page, paragraph, section, table
from tokenmill.settings.schema import TrainingConfig
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.counting import Counting
from tokenmill.training.counts_file import add_saved, describe_counts, parse_spec
from tokenmill.training.merging import Checkpoint, merge
from tokenmill.training.output import build_recipe, keep_first_tokens
from tokenmill.vocab.extension import ExtendOptions, extend_recipe
from tokenmill.vocab.words import Words, build_piece_tokenizer, check_base, check_text_kept, to_batches

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from tokenmill.report.cost import ModelShape
    from tokenmill.tokenizer.recipe import Recipe
    from tokenmill.training.merging import Merged

STEP = 1000
# Another thousand tokens that save less than this share of all tokens are not worth their rows.
LEAST_GAIN = 0.001
SCRIPTS = ("Hangul", "Han", "Hiragana", "Katakana", "Cyrillic", "Arabic", "Devanagari", "Thai", "Latin")


@dataclass(frozen=True)
class CountsFile:
    """One counts file: its distinct pieces, how often each occurs, its bytes in all and its script."""

    name: str
    pieces: pa.Array
    counts: NDArray[np.uint64]
    text: NDArray[np.uint64]
    scripts: NDArray[np.int64]


def measure_sizes(
    counts: Sequence[Any],
    sizes: Sequence[int],
    *,
    shape: ModelShape | None = None,
    base: Tokenizer | None = None,
) -> dict[str, Any]:
    """Measure every size over every counts file, and find the size after which more tokens gain little.

    With a `base`, the sizes are those of its extension by these counts.
    """
    wanted = sorted(set(sizes))
    if not wanted or wanted[0] < 257:
        raise ConfigError(f"sizes are {list(sizes)}; expected numbers above 256, such as 16k,32k,64k")
    about = describe_counts(parse_spec(counts[0])[0])
    special = tuple(about["special_tokens"])
    options = TrainingConfig(vocab_size=wanted[-1], pattern=about["pattern"], special_tokens=special)
    corpora = [_load_corpus(spec, options) for spec in counts]
    text = float(sum(corpus.text.sum() for corpus in corpora))
    if base is None:
        merged = _merge(counts, options)
        whole, gains, first = build_recipe(merged, options), merged.counts, 256 + len(special)
        start = text
    else:
        whole, gains, first, start = _extend(base, wanted, corpora, about["pattern"])
    steps = np.add.reduceat(np.asarray(gains, np.float64), np.arange(0, len(gains), STEP))
    left = start - np.cumsum(steps)
    poor = np.flatnonzero(steps / (left + steps) < LEAST_GAIN)
    return {
        "sizes": [_measure_size(whole, size, corpora, shape) for size in wanted],
        "enough": int(first + STEP * poor[0]) if len(poor) else None,
        "curve": [(first + STEP * (place + 1), text / tokens) for place, tokens in enumerate(left.tolist())],
        "pattern": about["pattern"],
    }


def _extend(
    base: Tokenizer, wanted: list[int], corpora: list[CountsFile], pattern: str
) -> tuple[Recipe, Any, int, float]:
    """Return the longest extension, what each of its merges saves, its first id, and the tokens before."""
    check_base(base)
    check_text_kept(base)
    if wanted[0] <= base.vocab_size:
        raise ConfigError(
            f"{base.source} has {base.vocab_size:,} tokens, and the smallest size is {wanted[0]:,}; "
            "give larger sizes"
        )
    if base.family != pattern:
        raise ConfigError(
            f"{base.source} splits text as {base.family}, but the counts were made by {pattern}; count "
            f"again with --pattern {base.family}"
        )
    words = Words.encode(build_piece_tokenizer(base), [(corpus.pieces, corpus.counts) for corpus in corpora])
    options = ExtendOptions(wanted[-1] - base.vocab_size, min_frequency=1)
    made = extend_recipe(base, words, options, np.empty(0, np.uint64))
    return made.recipe, [token.count for token in made.tokens], base.vocab_size, float(words.count_tokens())


def _merge(counts: Sequence[Any], options: TrainingConfig) -> Merged:
    machine = measure()
    with tempfile.TemporaryDirectory(prefix="tokenmill-sizes-") as folder:
        counting = Counting(
            options, threads=machine.cores.usable, memory_budget=machine.memory_budget, spill_dir=folder
        )
        add_saved(counting, options, counts)
        merged = merge(counting.finish(), options, checkpoint=Checkpoint(None))
    made = len(merged.tokens) + len(options.special_tokens)
    if made < options.vocab_size:
        raise ConfigError(
            f"these counts give {made:,} tokens at most, and {options.vocab_size:,} were asked for; "
            "choose smaller sizes, or count more text"
        )
    return merged


def _load_corpus(spec: Any, options: TrainingConfig) -> CountsFile:
    import pyarrow as pa
    import pyarrow.compute as pc

    counting = Counting(options, threads=1, memory_budget=1 << 40, spill_dir=tempfile.gettempdir())
    path = parse_spec(spec)[0]
    add_saved(counting, options, [path])
    found = list(to_batches(counting.finish()))
    pieces = pa.concat_arrays([texts for texts, _ in found])
    scripts = np.full(len(pieces), len(SCRIPTS))
    for number in reversed(range(len(SCRIPTS))):
        holds = pc.match_substring_regex(pieces, rf"\p{{{SCRIPTS[number]}}}")
        scripts[np.asarray(holds.to_numpy(zero_copy_only=False))] = number
    lengths = np.asarray(pc.binary_length(pieces).to_numpy(zero_copy_only=False), np.uint64)
    counts = np.concatenate([numbers for _, numbers in found])
    return CountsFile(path.stem, pieces, counts, lengths * counts, scripts)


def _measure_size(
    whole: Recipe, size: int, corpora: list[CountsFile], shape: ModelShape | None
) -> dict[str, Any]:
    """Encode every distinct piece with the first `size` tokens."""
    encoder = build_piece_tokenizer(Tokenizer(keep_first_tokens(whole, size)))
    row: dict[str, Any] = {"size": size, "corpora": {}, "scripts": {}}
    text_sums, token_sums = np.zeros((2, len(SCRIPTS) + 1))
    for corpus in corpora:
        tokens = encoder.count_batch(corpus.pieces, special="text").astype(np.uint64) * corpus.counts
        row["corpora"][corpus.name] = float(corpus.text.sum() / max(1, tokens.sum()))
        text_sums += np.bincount(corpus.scripts, weights=corpus.text, minlength=len(text_sums))
        token_sums += np.bincount(corpus.scripts, weights=tokens, minlength=len(token_sums))
    for name, text, count in zip((*SCRIPTS, "other"), text_sums, token_sums, strict=True):
        if count:
            row["scripts"][name] = float(text / count)
    row["bytes_per_token"] = float(text_sums.sum() / token_sums.sum())
    if shape is not None:
        cost = compute_cost(shape.model_copy(update={"vocab_size": size}))
        tables = ("embedding", "output layer")
        row["embedding_parameters"] = sum(cost.parameters.get(name, 0) for name in tables)
        row["flops_per_byte"] = cost.forward_flops / cost.context_length / row["bytes_per_token"]
    return row


def render(result: dict[str, Any]) -> str:
    """Return the table for a terminal."""
    names = list(result["sizes"][0]["corpora"])
    scripts = [name for name in (*SCRIPTS, "other") if any(name in row["scripts"] for row in result["sizes"])]
    costs = [key for key in ("embedding_parameters", "flops_per_byte") if key in result["sizes"][0]]
    lines = [["size", *names, *scripts, *(key.replace("_", " ") for key in costs)]]
    for row in result["sizes"]:
        cells = [f"{row['size']:,}", *(f"{row['corpora'][name]:.2f}" for name in names)]
        cells += [f"{row['scripts'].get(name, 0):.2f}" for name in scripts]
        lines.append([*cells, *(f"{row[key]:,.0f}" for key in costs)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    enough = result["enough"]
    verdict = (
        f"After {enough:,} tokens another {STEP:,} saves less than {LEAST_GAIN:.1%} of all tokens."
        if enough is not None
        else f"Up to the largest size every {STEP:,} tokens saves {LEAST_GAIN:.1%} or more."
    )
    return "\n".join(["Bytes per token:", *shown, verdict])


def write_page(result: dict[str, Any], path: Path) -> Path:
    """Write the curve and the table as one self-contained page."""
    points = result["curve"]
    x = Axis("tokens in the vocabulary", 0, points[-1][0])
    y = Axis("bytes per token", 0, max(value for _, value in points))
    rows = [(size, f"{value:.3f}") for size, value in points]
    chart = draw_plot(x, y, lines={"all corpora": points})
    body = [
        section("Bytes per token by vocabulary size", chart, table(("size", "bytes per token"), rows)),
        section("Measured", paragraph(render(result))),
    ]
    publish_bytes(path, page("Vocabulary sizes", body).encode())
    return path
