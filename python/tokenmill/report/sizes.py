"""Measure what each vocabulary size gains, from counts alone: bytes per token by corpus.

All sizes are prefixes of one training: a vocabulary of 16,000 is the first part of the one of 128,000. One
run of merges serves them all, and every distinct piece is encoded with each size, so each figure is exact.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.machine import measure
from tokenmill.errors import ConfigError
from tokenmill.report.cost import compute_cost
from tokenmill.report.page import format_rows
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

    import pyarrow as pa
    from numpy.typing import NDArray

    from tokenmill.report.cost import ModelShape
    from tokenmill.tokenizer.recipe import Recipe
    from tokenmill.training.merging import Merged

STEP = 1000
# Another thousand tokens that save less than this share of all tokens are not worth their rows.
LEAST_GAIN = 0.001


@dataclass(frozen=True)
class CountsFile:
    """One counts file: its distinct pieces, how often each occurs, and its bytes in all."""

    name: str
    pieces: pa.Array
    counts: NDArray[np.uint64]
    text: int


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
    text = float(sum(corpus.text for corpus in corpora))
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
    lengths = np.asarray(pc.binary_length(pieces).to_numpy(zero_copy_only=False), np.uint64)
    counts = np.concatenate([numbers for _, numbers in found])
    return CountsFile(path.stem, pieces, counts, int(np.dot(lengths, counts)))


def _measure_size(
    whole: Recipe, size: int, corpora: list[CountsFile], shape: ModelShape | None
) -> dict[str, Any]:
    """Encode every distinct piece with the first `size` tokens."""
    encoder = build_piece_tokenizer(Tokenizer(keep_first_tokens(whole, size)))
    tokens = [
        int(np.dot(encoder.count_batch(each.pieces, special="text").astype(np.uint64), each.counts))
        for each in corpora
    ]
    rates = {each.name: each.text / max(1, count) for each, count in zip(corpora, tokens, strict=True)}
    row: dict[str, Any] = {"size": size, "corpora": rates}
    row["bytes_per_token"] = sum(each.text for each in corpora) / max(1, sum(tokens))
    if shape is not None:
        cost = compute_cost(shape.model_copy(update={"vocab_size": size}))
        tables = ("embedding", "output layer")
        row["embedding_parameters"] = sum(cost.parameters.get(name, 0) for name in tables)
        row["flops_per_byte"] = cost.forward_flops / cost.context_length / row["bytes_per_token"]
    return row


def render(result: dict[str, Any]) -> str:
    """Return the table for a terminal."""
    costs = [key for key in ("embedding_parameters", "flops_per_byte") if key in result["sizes"][0]]
    header = ["size", *result["sizes"][0]["corpora"], "in all", *(key.replace("_", " ") for key in costs)]
    rows = [
        [
            f"{row['size']:,}",
            *row["corpora"].values(),
            row["bytes_per_token"],
            *(int(row[key]) for key in costs),
        ]
        for row in result["sizes"]
    ]
    enough = result["enough"]
    verdict = (
        f"After {enough:,} tokens another {STEP:,} saves less than {LEAST_GAIN:.1%} of all tokens."
        if enough is not None
        else f"Up to the largest size every {STEP:,} tokens saves {LEAST_GAIN:.1%} or more."
    )
    return f"Bytes per token\n{format_rows([header, *rows])}\n{verdict}"
