"""The plain text formats: GPT-2's `vocab.json` + `merges.txt`, and minbpe's `.model`.

Saving refuses a tokenizer that the format cannot represent; the checks serve `.tiktoken` files too.
"""

from __future__ import annotations

import json
import warnings
from itertools import starmap
from pathlib import Path

from tokenmill._core import LARGEST_ID, Spellings, spell
from tokenmill.errors import TokenizerError, TokenizerNotFoundError
from tokenmill.tokenizer.files import names
from tokenmill.tokenizer.files.hf import add_from_config, read_config_beside, spell_vocabulary, walk
from tokenmill.tokenizer.recipe import (
    AddedToken,
    Model,
    Recipe,
    build_byte_model,
    check_added,
    find_pattern,
    find_regex,
    make_byte_level,
    make_pre_tokenizer,
    make_printable,
    make_regex_pre_tokenizer,
)

_END = "<|endoftext|>"
DEFAULT_PATTERN = "gpt2"
HEADER = "minbpe v1"
# Sixty doublings would need more memory than exists.
_LONGEST = 1 << 16


def find_merges(path: Path) -> Path:
    """Return the path of the merges that belong to a vocabulary file."""
    return path.with_name(names.ENCODER_MERGES if path.name == names.ENCODER else names.MERGES)


def load_vocab_merges(vocab: Path, merges: Path, pattern: str | None) -> Recipe:
    """Load the two files; the pattern is the caller's, that of `pattern.txt`, or GPT-2's."""
    vocabulary = Spellings(_read(vocab), make_printable(vocab))
    tokens, outside = vocabulary.as_bytes()
    config = read_config_beside(vocab)
    side = vocab.with_name(names.PATTERN)
    if pattern is None and side.is_file():
        pattern = _read(side).decode()
    end = vocabulary.get(_END)
    specials = {} if end is None or "added_tokens_decoder" in config else {_END: end}
    listed = vocabulary.read_merges(_read(merges), make_printable(merges))
    return Recipe(
        source=str(vocab),
        format="vocab-merges",
        model=Model("bytes", tokens, merges=listed, unreachable=tuple(outside)),
        added=add_from_config(tuple(starmap(AddedToken, specials.items())), config, str(vocab)),
        pre_tokenizer=make_pre_tokenizer(pattern or DEFAULT_PATTERN),
        decoder=make_byte_level(use_regex=True),
        config=config,
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise TokenizerNotFoundError(
            f"{path}: no such file; a vocab.json needs a merges.txt in its directory"
        ) from error


def save_vocab_merges(recipe: Recipe) -> dict[str, bytes | None]:
    """Return `vocab.json`, `merges.txt`, the config with added tokens, and any pattern but GPT-2's."""
    model = require_byte_level(recipe, "vocab-merges")
    if model.merges is None or model.ignore_merges:
        why = "needs ignore_merges to be exact, which vocab.json + merges.txt cannot say"
        raise refuse(recipe, why, "'hf' or 'tiktoken'")
    pattern = require_pattern(recipe, "vocab-merges")
    if model.unk_id is not None and lacks_bytes(model):
        why = "has an unknown token for the bytes that it lacks, which vocab-merges cannot hold"
        raise refuse(recipe, why)
    warn_of_template(recipe, "vocab-merges")
    spelled = {i: spell(token) for i, token in enumerate(model.tokens) if token is not None}
    merges = [f"{spelled[left]} {spelled[right]}\n" for left, right in model.merges]
    return {
        names.PATTERN: None if pattern == DEFAULT_PATTERN else pattern.encode(),
        names.VOCAB: json.dumps(spell_vocabulary(recipe, model), ensure_ascii=False).encode(),
        names.TOKENIZER_CONFIG: _make_config(recipe, pattern),
        names.MERGES: "".join(["#version: 0.2\n", *merges]).encode(),
    }


def _make_config(recipe: Recipe, pattern: str) -> bytes:
    """Return a config with the added tokens; GPT-2's class only if it reads these files as we do."""
    listed = {str(token.id): token.to_json() for token in sorted(recipe.added, key=lambda token: token.id)}
    config = {key: value for key, value in recipe.config.items() if key != "added_tokens_decoder"}
    config["tokenizer_class"] = "GPT2Tokenizer" if pattern == DEFAULT_PATTERN else "PreTrainedTokenizerFast"
    whole = {**config, "added_tokens_decoder": listed}
    return json.dumps(whole, ensure_ascii=False, indent=2).encode()


def load_minbpe(path: Path, pattern: str | None) -> Recipe:
    """Load a minbpe model. An empty pattern (`BasicTokenizer`) keeps the whole text as one piece."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        count = int(lines[2])
        parts = [line.rpartition(" ") for line in lines[3 : 3 + count]]
        specials = {content: int(number) for content, _, number in parts}
    except (ValueError, IndexError) as error:
        raise TokenizerError(f"{path}:3: not a complete minbpe model ({error}); save it again") from error
    if len(specials) != count:
        raise TokenizerError(f"{path}:3: expected {count} special tokens, found {len(specials)}")
    tokens, merges = _read_merges(lines[3 + count :], path, 4 + count)
    return Recipe(
        source=str(path),
        format="minbpe",
        model=build_byte_model(zip(tokens, range(len(tokens)), strict=True), merges, str(path)),
        added=check_added(starmap(AddedToken, specials.items()), f"{path}: special tokens"),
        pre_tokenizer=make_pre_tokenizer(pattern) if pattern else make_regex_pre_tokenizer(lines[1]),
        decoder=make_byte_level(use_regex=False),
    )


def _read_merges(lines: list[str], path: Path, first: int) -> tuple[list[bytes], list[tuple[int, int]]]:
    tokens = [bytes([byte]) for byte in range(256)]
    merges: list[tuple[int, int]] = []
    for number, line in enumerate(lines, start=first):
        if not line.strip():
            continue
        try:
            left, right = map(int, line.split())
        except ValueError as error:
            raise TokenizerError(f"{path}:{number}: expected a merge of two ids, found {line!r}") from error
        if min(left, right) < 0 or max(left, right) >= len(tokens) or len(tokens) > LARGEST_ID:
            raise TokenizerError(
                f"{path}:{number}: merge {line!r} names a token that no earlier line makes; save it again"
            )
        if len(tokens[left]) + len(tokens[right]) > _LONGEST:
            raise TokenizerError(f"{path}:{number}: makes a token of more than {_LONGEST} bytes")
        tokens.append(tokens[left] + tokens[right])
        merges.append((left, right))
    return tokens, merges


def save_minbpe(recipe: Recipe) -> dict[str, bytes]:
    """Return the text file of minbpe, whose ids are the bytes and then the merges in order."""
    model = require_byte_level(recipe, "minbpe")
    refuse_flags(recipe, "minbpe")
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
        why = (
            "a minbpe file numbers the 256 bytes first and then the merges in order, which this vocabulary "
            "does not"
        )
        raise refuse(recipe, why, "'hf' or 'tiktoken'")
    pattern = find_regex(recipe.pre_tokenizer)
    if pattern is None and recipe.pre_tokenizer not in (None, make_byte_level(use_regex=False)):
        raise refuse(recipe, "its pre-tokenizer is not a single pattern, and a minbpe file holds just one")
    if pattern and "\n" in pattern:
        raise refuse(recipe, "its pattern contains a newline, which would end it in a minbpe file")
    warn_of_template(recipe, "minbpe")
    lines = [HEADER, pattern or "", str(len(recipe.added))]
    lines += [f"{token.content} {token.id}" for token in recipe.added]
    lines += [f"{left} {right}" for left, right in merges]
    return {names.MODEL: ("\n".join(lines) + "\n").encode()}


def lacks_bytes(model: Model) -> bool:
    """Return True if some byte that UTF-8 uses has no token."""
    ids = model.map_ids()
    return any(bytes([byte]) not in ids for byte in range(0xF5) if byte not in {0xC0, 0xC1})


def require_pattern(recipe: Recipe, format: str) -> str:  # noqa: A002
    """Return the `pattern=` with which to load it again, or raise `TokenizerError`."""
    pattern = find_pattern(recipe.pre_tokenizer)
    if pattern is None:
        why = f"its pre-tokenizer is neither a known family nor one regex, so {format} cannot hold it"
        raise refuse(recipe, why)
    return pattern


def refuse_flags(recipe: Recipe, format: str) -> None:  # noqa: A002
    """Raise `TokenizerError` for added tokens that are more than a string with an id."""
    for token in recipe.added:
        flags = token.lstrip or token.rstrip or token.single_word
        if flags or not token.special or "\n" in token.content:
            why = (
                f"{format} cannot hold the flags of added tokens, and {token.content!r} has some (it is not "
                "special, strips white space, must stand alone, or contains a newline)"
            )
            raise refuse(recipe, why)


def warn_of_template(recipe: Recipe, format: str) -> None:  # noqa: A002
    """Warn if the post-processor adds tokens, which the format cannot hold."""
    adds = [step.get("type") for step in walk(recipe.post_processor) if step.get("type") != "ByteLevel"]
    if adds:
        warnings.warn(
            f"{recipe.source}: {format} cannot hold what it adds around a text ({adds[0]}): loaded again, "
            "add_special_tokens=True adds nothing; save it as 'hf' to keep that",
            stacklevel=5,
        )


def refuse(recipe: Recipe, why: str, formats: str = "'hf'") -> TokenizerError:
    """Return the error for a tokenizer that a format cannot hold."""
    return TokenizerError(f"{recipe.source}: {why}; save it as {formats}")


def require_byte_level(recipe: Recipe, format: str) -> Model:  # noqa: A002
    """Return the model; raise `TokenizerError` unless it is byte-level BPE without a normalizer."""
    model = recipe.model
    if model is None or model.kind != "bytes" or model.end_of_word_suffix:
        raise refuse(recipe, f"only byte-level BPE can be saved as {format}")
    if recipe.normalizer is not None and recipe.normalizer.get("normalizers", True):
        why = f"has the normalizer {recipe.normalizer.get('type')}, which {format} cannot hold"
        raise refuse(recipe, why)
    return model
