"""Build a tokenizer from merges, and write the files and figures of a finished training.

All files are complete before the first one is moved to its place; `training.json` comes last.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tokenmill import _core
from tokenmill._core import Merges, spell
from tokenmill.base import words
from tokenmill.base.durable import publish_json
from tokenmill.errors import InterruptedJobError
from tokenmill.tokenizer.files.kinds import list_files, publish_files
from tokenmill.tokenizer.recipe import (
    AddedToken,
    Model,
    Recipe,
    build_byte_model,
    guess_roles,
    make_byte_level,
    make_pre_tokenizer,
    number_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tokenmill.settings.schema import SaveFormat, TrainingConfig
    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.training.counting import Counted
    from tokenmill.training.merging import Merged


def build_recipe(merged: Merged, options: TrainingConfig, source: str = "trained") -> Recipe:
    """Return a recipe numbered as by HF's trainer: special tokens, bytes in its order, merged tokens."""
    special = options.special_tokens
    added = tuple(AddedToken(content, token_id) for token_id, content in enumerate(special))
    tokens = merged.vocabulary.prepend([token.encode() for token in special])
    # As in files: tokens outside the alphabet of bytes are not tokens of the model.
    outside = {i: token.encode() for i, token in enumerate(special) if spell(token.encode()) != token}
    if outside:
        kept = (None if i in outside else token for i, token in enumerate(tokens))
        tokens = number_tokens(kept, source)
    return Recipe(
        source=source,
        format="hf",
        model=Model(
            "bytes",
            tokens,
            merges=merged.merges.shift_ids(len(special)),
            unreachable=tuple(outside.items()),
        ),
        added=added,
        pre_tokenizer=make_pre_tokenizer(options.pattern),
        decoder=make_byte_level(use_regex=True),
        config=_assign_roles(added),
    )


def _assign_roles(added: tuple[AddedToken, ...]) -> dict[str, str]:
    """Return the roles of the special tokens; padding defaults to the end token."""
    roles = guess_roles(added)
    return roles if "eos_token" not in roles else {"pad_token": roles["eos_token"], **roles}


def keep_first_tokens(recipe: Recipe, size: int) -> Recipe:
    """Return the tokenizer that training to a smaller `size` gives."""
    model = recipe.model
    assert model is not None, "a trained tokenizer has a model"
    tokens = tuple(model.tokens[:size])
    ids = {token: place for place, token in enumerate(tokens)}
    merges = []
    for left, right in model.merges or ():
        if left >= size or right >= size or (tokens[left] or b"") + (tokens[right] or b"") not in ids:
            break
        merges.append((left, right))
    source = f"{recipe.source}/{size}"
    smaller = replace(model, tokens=number_tokens(tokens, source), merges=Merges(merges))
    return replace(recipe, model=smaller, source=source)


def build_minbpe_recipe(merged: Merged, options: TrainingConfig, source: str = "trained") -> Recipe:
    """Return a recipe numbered as by minbpe: bytes by value, merged tokens, special tokens."""
    renumbered = [token[0] for token in merged.tokens[:256]]
    renumbered += range(256, len(merged.tokens))
    tokens = [*(bytes([byte]) for byte in range(256)), *merged.tokens[256:]]
    merges = [(renumbered[left], renumbered[right]) for left, right in merged.merges]
    added = enumerate(options.special_tokens, start=len(tokens))
    return Recipe(
        source=source,
        format="minbpe",
        model=build_byte_model(zip(tokens, range(len(tokens)), strict=True), merges, source),
        added=tuple(AddedToken(content, token_id) for token_id, content in added),
        pre_tokenizer=make_pre_tokenizer(options.pattern),
    )


TRAINING = "training.json"


def save_all(
    tokenizer: Tokenizer,
    output: Path,
    formats: Iterable[SaveFormat],
    provenance: dict[str, Any],
    minbpe: Callable[[], Recipe],
) -> None:
    """Write every format, then `training.json`; `minbpe` returns the vocabulary with minbpe's ids."""
    files: dict[str, bytes | None] = {}
    for form in formats:
        recipe = minbpe() if form == "minbpe" else tokenizer.recipe
        files |= list_files(recipe, form)
        if form == "minbpe":
            files["tokenizer.vocab"] = "".join(f"{line}\n" for line in format_vocabulary(recipe)).encode()
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / TRAINING).unlink(missing_ok=True)
        publish_files(output, files)
        publish_json(output / TRAINING, {"version": 1, **provenance, "fingerprint": tokenizer.fingerprint})
    except OSError as error:
        raise InterruptedJobError(
            f"{output} cannot be written: {error}; free space and run it again"
        ) from error


def format_vocabulary(recipe: Recipe) -> Iterator[str]:
    """Yield the lines of minbpe's `.vocab`: `[t][h] -> [th] 256`."""
    model = recipe.model
    made: dict[bytes, tuple[int, int]] = {}
    tokens = [] if model is None else [token or b"" for token in model.tokens]
    for left, right in (model.merges if model else None) or ():
        made.setdefault(tokens[left] + tokens[right], (left, right))
    for token_id, token in enumerate(tokens):
        name = _show(token)
        if token in made:
            left, right = made[token]
            yield f"[{_show(tokens[left])}][{_show(tokens[right])}] -> [{name}] {token_id}"
        else:
            yield f"[{name}] {token_id}"
    for added in recipe.added:
        yield f"[{added.content}] {added.id}"


def _show(token: bytes) -> str:
    text = token.decode("utf-8", "replace")
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


def summarise(
    options: TrainingConfig,
    counted: Counted,
    merged: Merged,
    tokenizer: Tokenizer,
    seconds: float,
) -> dict[str, Any]:
    """Return the figures of `training.json`."""
    full = len(merged.tokens) >= options.model_tokens
    return {
        "tokenmill": _core.__version__,
        "vocab_size": len(merged.tokens) + len(options.special_tokens),
        "wanted_vocab_size": options.vocab_size,
        "stopped": "vocabulary full" if full else "no pair left that may be merged",
        "merges": len(merged.merges),
        "last_pair_count": int(merged.counts[-1]) if len(merged.counts) else None,
        **counted.figures(),
        "spilled_bytes": counted.spilled_bytes,
        "pieces_merged": merged.pieces,
        "refused": counted.refused,
        "bytes_per_token": measure_bytes_per_token(tokenizer, counted.sample),
        "sample": "held out" if options.held_out else "of the training texts",
        "seconds": {
            "counting": round(counted.seconds, 3),
            "merging": round(merged.seconds, 3),
            "total": round(seconds, 3),
        },
    }


def measure_bytes_per_token(tokenizer: Tokenizer, sample: list[str]) -> float | None:
    """Return the mean number of bytes per token on the sample."""
    # One text at a time: a batch would allocate the full cache of the encoder (16 MB).
    tokens = sum(int(tokenizer.count_batch([text], special="text", threads=1).sum()) for text in sample)
    return round(sum(len(text.encode()) for text in sample) / tokens, 4) if tokens else None


def format_lines(summary: dict[str, Any]) -> list[str]:
    """Format the summary, a line each."""
    seconds = summary["seconds"]
    times = (f"{stage} {seconds[stage]:.2f} s" for stage in ("counting", "merging", "total"))
    found = [
        f"vocabulary      {summary['vocab_size']:,} tokens, {summary['merges']:,} merges",
        f"stopped         {summary['stopped']}; the last pair occurs {summary['last_pair_count']} times",
        f"read            {summary['documents']:,} documents, {words.size(summary['bytes'])}",
        f"pieces          {summary['pieces']:,}, {summary['unique']:,} of them different",
        f"time            {', '.join(times)}",
    ]
    if summary["spilled_bytes"]:
        found.append(f"spilled         {words.size(summary['spilled_bytes'])} of counts to disk")
    if summary["refused"]:
        refused = ", ".join(f"{reason} {count}" for reason, count in summary["refused"].items())
        found.append(f"refused         {refused}")
    if summary["bytes_per_token"] is not None:
        found.append(f"bytes per token {summary['bytes_per_token']:.2f} on a sample {summary['sample']}")
    return found
