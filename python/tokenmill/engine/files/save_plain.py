"""The plain formats: `.tiktoken`, `vocab.json` + `merges.txt`, minbpe. Each refuses what it cannot hold."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from tokenmill._core import spell
from tokenmill.base.errors import TokenizerError
from tokenmill.engine.files.minbpe import HEADER
from tokenmill.engine.files.splits import merges_of
from tokenmill.engine.files.vocab_merges import DEFAULT_PATTERN, PATTERN_FILE
from tokenmill.engine.pre_tokenizer import pattern_of, regex_of

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.engine.recipe import Json, Model, Recipe


def save_tiktoken(recipe: Recipe, path: Path) -> None:
    """One `base64 rank` a line; the pattern and special tokens must be given again when it is loaded."""
    model = _byte_level(recipe, "tiktoken")
    _pattern(recipe, "tiktoken")
    order = model.rank_order or _ranks_from_merges(recipe, model)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for token_id in order:
            token = model.tokens[token_id] or b""
            file.write(base64.b64encode(token) + f" {token_id}\n".encode())


def _ranks_from_merges(recipe: Recipe, model: Model) -> list[int]:
    """Ids in rank order, if the ids of a merge list are in that order: tiktoken's rank is the id."""
    ids = {token: i for i, token in enumerate(model.tokens) if token is not None}
    made = [
        ids[(model.tokens[left] or b"") + (model.tokens[right] or b"")] for left, right in merges_of(model)
    ]
    atoms = [i for token, i in ids.items() if len(token) == 1]
    if made != sorted(set(made)) or (made and atoms and min(made) < max(atoms)):
        raise TokenizerError(
            f"{recipe.source}: its ids do not follow the order of its merges, and a .tiktoken file "
            "has one number "
            "for both; save it as 'hf' or 'vocab-merges'"
        )
    return sorted(atoms) + made


def save_vocab_merges(recipe: Recipe, path: Path) -> None:
    """A directory with `vocab.json` and `merges.txt`, and the pattern where it is not GPT-2's."""
    model = _byte_level(recipe, "vocab-merges")
    if model.merges is None or model.ignore_merges:
        raise TokenizerError(
            f"{recipe.source}: needs ignore_merges to be exact, which vocab.json + merges.txt cannot say; "
            "save it as 'hf' or 'tiktoken'"
        )
    pattern = _pattern(recipe, "vocab-merges")
    path.mkdir(parents=True, exist_ok=True)
    (path / PATTERN_FILE).unlink(missing_ok=True)
    if pattern != DEFAULT_PATTERN:
        (path / PATTERN_FILE).write_text(pattern, encoding="utf-8")
    vocabulary = {spell(token): i for i, token in enumerate(model.tokens) if token is not None}
    for token in recipe.added:
        vocabulary.setdefault(token.content, token.id)
    text = json.dumps(vocabulary, ensure_ascii=False)
    (path / "vocab.json").write_text(text, encoding="utf-8")
    with (path / "merges.txt").open("w", encoding="utf-8", newline="\n") as file:
        file.write("#version: 0.2\n")
        for left, right in model.merges:
            file.write(f"{spell(model.tokens[left] or b'')} {spell(model.tokens[right] or b'')}\n")


def save_minbpe(recipe: Recipe, path: Path) -> None:
    """The text file of minbpe, whose ids are the bytes and then the merges in order."""
    model = _byte_level(recipe, "minbpe")
    expected = [bytes([byte]) for byte in range(256)]
    merges = [] if model.merges is None else list(model.merges)
    for left, right in merges:
        if max(left, right) >= len(expected):
            break
        expected.append(expected[left] + expected[right])
    if (
        model.merges is None
        or list(model.tokens[: len(expected)]) != expected
        or len(expected) != 256 + len(merges)
    ):
        raise TokenizerError(
            f"{recipe.source}: a minbpe file numbers the 256 bytes first and then the merges in "
            "order, which this "
            "vocabulary does not; save it as 'hf' or 'tiktoken'"
        )
    pattern = regex_of(recipe.pre_tokenizer)
    if pattern is None and recipe.pre_tokenizer is not None and not _whole_text(recipe.pre_tokenizer):
        raise TokenizerError(
            f"{recipe.source}: its pre-tokenizer is not one pattern, and a minbpe file holds "
            "one; save it as 'hf'"
        )
    lines = [HEADER, pattern or "", str(len(recipe.added))]
    lines += [f"{token.content} {token.id}" for token in recipe.added]
    lines += [f"{left} {right}" for left, right in merges]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _pattern(recipe: Recipe, format: str) -> str:  # noqa: A002
    """What the caller passes as `pattern=` to load it again."""
    pattern = pattern_of(recipe.pre_tokenizer)
    if pattern is None:
        raise TokenizerError(
            f"{recipe.source}: its pre-tokenizer is no family's and not one regex, so that {format} cannot "
            "hold it; save it as 'hf'"
        )
    return pattern


def _whole_text(step: Json) -> bool:
    return step.get("type") == "ByteLevel" and not step.get("use_regex", True)


def _byte_level(recipe: Recipe, format: str) -> Model:  # noqa: A002
    model = recipe.model
    if model is None or model.kind != "bytes" or model.end_of_word_suffix:
        raise TokenizerError(
            f"{recipe.source}: only byte-level BPE can be saved as {format}; save it as 'hf'"
        )
    if recipe.normalizer is not None and recipe.normalizer.get("normalizers", True):
        raise TokenizerError(
            f"{recipe.source}: has the normalizer {recipe.normalizer.get('type')}, which {format} "
            "cannot hold; "
            "save it as 'hf'"
        )
    return model
