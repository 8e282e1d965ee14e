"""What each vocabulary size gains, from counts alone: bytes per token by corpus and script.

All sizes are prefixes of one training: a vocabulary of 16,000 is the first part of the one of 128,000. So one
run of merges serves them all, and every distinct piece is encoded once, with the largest. What a smaller one
makes of it is the same with the later merges undone, so each size is measured exactly.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.machine import measure
from tokenmill.errors import ConfigError
from tokenmill.report.cost import compute_cost
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
    from tokenmill.tokenizer.batch import TokenBatch
    from tokenmill.tokenizer.recipe import Recipe
    from tokenmill.training.merging import Merged

STEP = 1000
# Another thousand tokens that save less than this share of all tokens are not worth their rows.
LEAST_GAIN = 0.001
SCRIPTS = ("Hangul", "Han", "Hiragana", "Katakana", "Cyrillic", "Arabic", "Devanagari", "Thai", "Latin")


@dataclass(frozen=True)
class CountsFile:
    """One counts file: its distinct pieces, how often each occurs, and the script each is written in."""

    name: str
    pieces: pa.Array
    counts: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    scripts: NDArray[np.int64]


def measure_sizes(
    counts: Sequence[Any],
    sizes: Sequence[int],
    *,
    shape: ModelShape | None = None,
    base: Tokenizer | None = None,
) -> dict[str, Any]:
    """Every size over every counts file, and the size after which another thousand tokens stops paying.

    With a `base`, the sizes are those of its extension by these counts.
    """
    wanted = sorted(set(sizes))
    if not wanted or wanted[0] < 257:
        raise ConfigError(f"sizes are {list(sizes)}; expected numbers above 256, such as 16k,32k,64k")
    about = describe_counts(parse_spec(counts[0])[0])
    special = tuple(about["special_tokens"])
    options = TrainingConfig(vocab_size=wanted[-1], pattern=about["pattern"], special_tokens=special)
    corpora = [_load_corpus(spec, options) for spec in counts]
    if base is None:
        merged = _merge(counts, options)
        whole, gains, first = build_recipe(merged, options), merged.counts, 256 + len(special)
        start = float(sum((corpus.lengths.astype(np.uint64) * corpus.counts).sum() for corpus in corpora))
    else:
        whole, gains, first, start = _extend(base, wanted, corpora, about["pattern"])
    encoded = EncodedPieces.of(whole, first, corpora)
    rows = [_measure_size(encoded, size, shape) for size in wanted]
    steps = np.add.reduceat(np.asarray(gains, np.float64), np.arange(0, len(gains), STEP))
    text = float(sum((corpus.lengths.astype(np.uint64) * corpus.counts).sum() for corpus in corpora))
    left = start - np.cumsum(steps)
    return {
        "sizes": rows,
        "enough": _find_enough(start, steps, first),
        "curve": [(first + STEP * (place + 1), text / tokens) for place, tokens in enumerate(left.tolist())],
        "pattern": about["pattern"],
    }


def _extend(
    base: Tokenizer, wanted: list[int], corpora: list[CountsFile], pattern: str
) -> tuple[Recipe, Any, int, float]:
    """The longest extension, what each of its merges saves, its first id, and the tokens before."""
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
    lengths = np.asarray(pc.binary_length(pieces).to_numpy(zero_copy_only=False), np.int64)
    return CountsFile(path.stem, pieces, np.concatenate([numbers for _, numbers in found]), lengths, scripts)


@dataclass(frozen=True)
class EncodedPieces:
    """All pieces, encoded with the whole vocabulary, and the merge behind each token from `first` on."""

    whole: Recipe
    first: int
    merges: list[tuple[int, int]]
    corpora: list[CountsFile]
    batches: list[TokenBatch]

    @classmethod
    def of(cls, whole: Recipe, first: int, corpora: list[CountsFile]) -> EncodedPieces:
        """Encode every distinct piece."""
        model = whole.model
        assert model is not None, "a trained tokenizer has a model"
        made = len(model.tokens) - first
        merges = list(model.merges or ())
        alone = build_piece_tokenizer(Tokenizer(whole))
        batches = [alone.encode_batch(corpus.pieces, special="text") for corpus in corpora]
        return cls(whole, first, merges[len(merges) - made :] if made else [], corpora, batches)

    def count(self, size: int) -> list[NDArray[np.uint64]]:
        """How many tokens each piece of each corpus has with the first `size` tokens."""
        if not self._one_merge_each:
            smaller = build_piece_tokenizer(Tokenizer(keep_first_tokens(self.whole, size)))
            counts = (smaller.count_batch(corpus.pieces, special="text") for corpus in self.corpora)
            return [count.astype(np.uint64) for count in counts]
        spans = [1] * size
        for left, right in self.merges[size - self.first :]:
            spans.append(spans[left] + spans[right])
        widths = np.array(spans, np.uint64)
        return [_sum_pieces(widths[batch.ids], batch.offsets) for batch in self.batches]

    @cached_property
    def _one_merge_each(self) -> bool:
        """Whether each token was made by one merge, so that undoing it is simple; nearly always."""
        model = self.whole.model
        assert model is not None, "a trained tokenizer has a model"
        tokens = [token or b"" for token in model.tokens]
        pairs = zip(self.merges, tokens[self.first :], strict=True)
        return all(tokens[left] + tokens[right] == token for (left, right), token in pairs)


def _sum_pieces(values: NDArray[np.uint64], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    sums = np.concatenate([[0], np.cumsum(values)]).astype(np.uint64)
    return sums[offsets[1:]] - sums[offsets[:-1]]


def _measure_size(encoded: EncodedPieces, size: int, shape: ModelShape | None) -> dict[str, Any]:
    row: dict[str, Any] = {"size": size, "corpora": {}, "scripts": {}}
    sums = np.zeros((2, len(SCRIPTS) + 1))
    for corpus, numbers in zip(encoded.corpora, encoded.count(size), strict=True):
        tokens = numbers * corpus.counts
        text = corpus.lengths.astype(np.uint64) * corpus.counts
        row["corpora"][corpus.name] = float(text.sum() / max(1, tokens.sum()))
        for part, weights in enumerate((text, tokens)):
            sums[part] += np.bincount(corpus.scripts, weights=weights, minlength=len(SCRIPTS) + 1)
    for number, name in enumerate((*SCRIPTS, "other")):
        if sums[1][number]:
            row["scripts"][name] = float(sums[0][number] / sums[1][number])
    row["bytes_per_token"] = float(sums[0].sum() / sums[1].sum())
    if shape is not None:
        row |= _compute_cost(shape, size, row["bytes_per_token"])
    return row


def _compute_cost(shape: ModelShape, size: int, bytes_per_token: float) -> dict[str, Any]:
    """Embedding parameters, and matrix-multiply FLOPs of a forward pass for each byte of text."""
    found = compute_cost(shape.model_copy(update={"vocab_size": size}))
    embedding = sum(
        count for name, count in found.parameters.items() if "embedding" in name or "output" in name
    )
    per_token = found.forward_flops / found.context_length
    return {"embedding_parameters": embedding, "flops_per_byte": per_token / bytes_per_token}


def _find_enough(start: float, steps: NDArray[np.float64], first: int) -> int | None:
    """The first size after which a thousand more tokens saves less than a thousandth; None if all pay."""
    left = start - np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    poor = np.flatnonzero(steps / left < LEAST_GAIN)
    return int(first + STEP * poor[0]) if len(poor) else None


def render(result: dict[str, Any]) -> str:
    """The table for a terminal."""
    names = list(result["sizes"][0]["corpora"])
    scripts = [name for name in (*SCRIPTS, "other") if any(name in row["scripts"] for row in result["sizes"])]
    costs = [key for key in ("embedding_parameters", "flops_per_byte") if key in result["sizes"][0]]
    lines = [["size", *names, *scripts, *(key.replace("_", " ") for key in costs)]]
    for row in result["sizes"]:
        cells = [f"{row['size']:,}", *(f"{row['corpora'][name]:.2f}" for name in names)]
        cells += [f"{row['scripts'].get(name, 0):.2f}" for name in scripts]
        lines.append([*cells, *(f"{row[key]:,.0f}" for key in costs)])
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    enough = result["enough"]
    verdict = (
        f"After {enough:,} tokens another {STEP:,} saves less than {LEAST_GAIN:.1%} of all tokens."
        if enough is not None
        else f"Up to the largest size every {STEP:,} tokens saves {LEAST_GAIN:.1%} or more."
    )
    return "\n".join(["Bytes per token:", *table, verdict])


def write_page(result: dict[str, Any], path: Path) -> Path:
    """The curves as one self-contained page."""
    from tokenmill.base.durable import publish_bytes
    from tokenmill.report.page import Axis, draw_plot, page, paragraph, section, table

    points = result["curve"]
    body = [
        section(
            "Bytes per token by vocabulary size",
            draw_plot(
                Axis("tokens in the vocabulary", 0, points[-1][0]),
                Axis("bytes per token", 0, max(value for _, value in points)),
                lines={"all corpora": points},
            ),
            table(("size", "bytes per token"), [(size, f"{value:.3f}") for size, value in points]),
        ),
        section("Measured", paragraph(render(result))),
    ]
    publish_bytes(path, page("Vocabulary sizes", body).encode())
    return path
