"""The plain formats: `.tiktoken`, `vocab.json` + `merges.txt`, minbpe. Each refuses what it cannot hold."""

from __future__ import annotations

import base64
import json
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING

from tokenmill._core import spell
from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.files.hf_json import walk
from tokenmill.tokenizer.files.minbpe import HEADER
from tokenmill.tokenizer.files.names import MERGES, PATTERN, TOKENIZER_CONFIG, VOCAB
from tokenmill.tokenizer.files.vocab_merges import DEFAULT_PATTERN
from tokenmill.tokenizer.pre_tokenizer import find_pattern, find_regex

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.tokenizer.recipe import Json, Model, Recipe


def save_tiktoken(recipe: Recipe, path: Path) -> None:
    """One `base64 rank` a line; the pattern and special tokens must be given again when it is loaded."""
    model = _require_byte_level(recipe, "tiktoken")
    _refuse_flags(recipe, "tiktoken")
    _require_pattern(recipe, "tiktoken")
    if _lacks_bytes(model):
        raise TokenizerError(
            f"{recipe.source}: lacks the tokens of some bytes, which a .tiktoken file must have; save it as "
            "'hf' or 'vocab-merges'"
        )
    order = model.rank_order or _rank_by_merges(recipe, model)
    _warn_of_template(recipe, "tiktoken")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for token_id in order:
            token = model.tokens[token_id] or b""
            file.write(base64.b64encode(token) + f" {token_id}\n".encode())


def _rank_by_merges(recipe: Recipe, model: Model) -> list[int]:
    """Ids in rank order, if the ids of a merge list are in that order: tiktoken's rank is the id."""
    ids = model.map_ids()
    made = [
        ids[(model.tokens[left] or b"") + (model.tokens[right] or b"")] for left, right in model.list_merges()
    ]
    atoms = [i for token, i in ids.items() if len(token) == 1]
    if made != sorted(set(made)) or (made and atoms and min(made) < max(atoms)):
        raise TokenizerError(
            f"{recipe.source}: its ids do not follow the order of its merges, and a .tiktoken file has one "
            "number for both; save it as 'hf' or 'vocab-merges'"
        )
    other = next((product for pair, product in zip(model.list_merges(), made, strict=True)
                  if _split_by_ranks(model, ids, product) != pair), None)  # fmt: skip
    left_out = set(ids.values()) - {*atoms, *made} if model.ignore_merges else None
    if other is not None or left_out:
        raise TokenizerError(
            f"{recipe.source}: its merges are not those that the ranks of a .tiktoken file give; save it as "
            "'hf' or 'vocab-merges'"
        )
    return sorted(atoms) + made


def _lacks_bytes(model: Model) -> bool:
    """Whether some byte that UTF-8 uses has no token."""
    ids = model.map_ids()
    return any(bytes([byte]) not in ids for byte in range(0xF5) if byte not in {0xC0, 0xC1})


def _split_by_ranks(model: Model, ids: dict[bytes, int], product: int) -> tuple[int, int] | None:
    """The two tokens that merging by rank last joins to make this one; None if it is never made.

    Where that is the pair of the merge list for every token, both ways of merging are the same.
    """
    token = model.tokens[product] or b""
    parts = [token[at : at + 1] for at in range(len(token))]
    while len(parts) > 2:
        ranks = [ids.get(left + right, product) for left, right in pairwise(parts)]
        best = min(ranks)
        if best >= product:
            return None
        at = ranks.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return (ids[parts[0]], ids[parts[1]]) if len(parts) == 2 else None


def save_vocab_merges(recipe: Recipe, path: Path) -> None:
    """A directory with `vocab.json`, `merges.txt`, the added tokens, and any pattern but GPT-2's."""
    model = _require_byte_level(recipe, "vocab-merges")
    if model.merges is None or model.ignore_merges:
        raise TokenizerError(
            f"{recipe.source}: needs ignore_merges to be exact, which vocab.json + merges.txt cannot say; "
            "save it as 'hf' or 'tiktoken'"
        )
    pattern = _require_pattern(recipe, "vocab-merges")
    if model.unk_id is not None and _lacks_bytes(model):
        raise TokenizerError(
            f"{recipe.source}: has an unknown token for the bytes that it lacks, which vocab-merges cannot "
            "hold; save it as 'hf'"
        )
    _warn_of_template(recipe, "vocab-merges")
    path.mkdir(parents=True, exist_ok=True)
    (path / PATTERN).unlink(missing_ok=True)
    if pattern != DEFAULT_PATTERN:
        (path / PATTERN).write_text(pattern, encoding="utf-8")
    vocabulary = {spell(token): i for i, token in enumerate(model.tokens) if token is not None}
    for token_id, token in model.unreachable:
        vocabulary.setdefault(token.decode(), token_id)
    # Readers that know no other file look for special tokens here.
    for added in recipe.added:
        vocabulary.setdefault(added.content, added.id)
    text = json.dumps(vocabulary, ensure_ascii=False)
    (path / VOCAB).write_text(text, encoding="utf-8")
    _write_config(recipe, pattern, path / TOKENIZER_CONFIG)
    with (path / MERGES).open("w", encoding="utf-8", newline="\n") as file:
        file.write("#version: 0.2\n")
        for left, right in model.merges:
            file.write(f"{spell(model.tokens[left] or b'')} {spell(model.tokens[right] or b'')}\n")


def _write_config(recipe: Recipe, pattern: str, path: Path) -> None:
    """The added tokens, where transformers has them; its class only where it reads these files as we do."""
    listed = {str(token.id): token.to_json() for token in sorted(recipe.added, key=lambda token: token.id)}
    config = {key: value for key, value in recipe.config.items() if key != "added_tokens_decoder"}
    config["tokenizer_class"] = "GPT2Tokenizer" if pattern == DEFAULT_PATTERN else "PreTrainedTokenizerFast"
    whole = {**config, "added_tokens_decoder": listed}
    path.write_text(json.dumps(whole, ensure_ascii=False, indent=2), encoding="utf-8")


def save_minbpe(recipe: Recipe, path: Path) -> None:
    """The text file of minbpe, whose ids are the bytes and then the merges in order."""
    model = _require_byte_level(recipe, "minbpe")
    _refuse_flags(recipe, "minbpe")
    expected = [bytes([byte]) for byte in range(256)]
    merges = [] if model.merges is None else list(model.merges)
    for left, right in merges:
        if max(left, right) >= len(expected):
            break
        expected.append(expected[left] + expected[right])
    if (
        model.merges is None
        or model.ignore_merges
        or list(model.tokens[: len(expected)]) != expected
        or len(expected) != 256 + len(merges)
    ):
        raise TokenizerError(
            f"{recipe.source}: a minbpe file numbers the 256 bytes first and then the merges in order, which "
            "this vocabulary does not; save it as 'hf' or 'tiktoken'"
        )
    pattern = find_regex(recipe.pre_tokenizer)
    if pattern is None and recipe.pre_tokenizer is not None and not _keeps_whole(recipe.pre_tokenizer):
        raise TokenizerError(
            f"{recipe.source}: its pre-tokenizer is not a single pattern, and a minbpe file holds just one; "
            "save it as 'hf'"
        )
    if pattern and "\n" in pattern:
        raise TokenizerError(
            f"{recipe.source}: its pattern contains a newline, which would end it in a minbpe file; save it "
            "as 'hf'"
        )
    _warn_of_template(recipe, "minbpe")
    lines = [HEADER, pattern or "", str(len(recipe.added))]
    lines += [f"{token.content} {token.id}" for token in recipe.added]
    lines += [f"{left} {right}" for left, right in merges]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _require_pattern(recipe: Recipe, format: str) -> str:  # noqa: A002
    """What to pass as `pattern=` to load it again; raises `TokenizerError` if there is no such pattern."""
    pattern = find_pattern(recipe.pre_tokenizer)
    if pattern is None:
        raise TokenizerError(
            f"{recipe.source}: its pre-tokenizer is neither a known family nor one regex, so {format} cannot "
            "hold it; save it as 'hf'"
        )
    return pattern


def _refuse_flags(recipe: Recipe, format: str) -> None:  # noqa: A002
    """Refuses added tokens that are more than a string with an id."""
    for token in recipe.added:
        flags = token.lstrip or token.rstrip or token.single_word
        if flags or not token.special or "\n" in token.content:
            raise TokenizerError(
                f"{recipe.source}: {format} cannot hold the flags of added tokens, and {token.content!r} has "
                "some (it is not special, strips white space, must stand alone, or contains a newline); save "
                "it as 'hf'"
            )


def _warn_of_template(recipe: Recipe, format: str) -> None:  # noqa: A002
    adds = [step.get("type") for step in walk(recipe.post_processor) if step.get("type") != "ByteLevel"]
    if adds:
        warnings.warn(
            f"{recipe.source}: {format} cannot hold what it adds around a text ({adds[0]}): loaded again, "
            "add_special_tokens=True adds nothing; save it as 'hf' to keep that",
            stacklevel=5,
        )


def _keeps_whole(step: Json) -> bool:
    return step.get("type") == "ByteLevel" and not step.get("use_regex", True)


def _require_byte_level(recipe: Recipe, format: str) -> Model:  # noqa: A002
    model = recipe.model
    if model is None or model.kind != "bytes" or model.end_of_word_suffix:
        raise TokenizerError(
            f"{recipe.source}: only byte-level BPE can be saved as {format}; save it as 'hf'"
        )
    if recipe.normalizer is not None and recipe.normalizer.get("normalizers", True):
        raise TokenizerError(
            f"{recipe.source}: has the normalizer {recipe.normalizer.get('type')}, which {format} cannot "
            "hold; save it as 'hf'"
        )
    return model
