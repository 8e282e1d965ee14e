"""Files of byte tokens by rank: `.tiktoken` (OpenAI) and `tekken.json` (Mistral).

A `.tiktoken` file is one `base64(token) rank` a line; its pattern and special tokens are elsewhere. In a
`tekken.json` the special tokens come before the ranks in the ids.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenmill import _core
from tokenmill.errors import TokenizerError, explain_missing
from tokenmill.tokenizer.files import names
from tokenmill.tokenizer.files.plain import (
    lacks_bytes,
    refuse,
    refuse_flags,
    require_byte_level,
    require_pattern,
    warn_of_template,
)
from tokenmill.tokenizer.recipe import (
    AddedToken,
    Json,
    Model,
    Recipe,
    add_specials,
    check_added,
    make_byte_level,
    make_pre_tokenizer,
    make_printable,
    make_regex_pre_tokenizer,
)

_END = "<|endoftext|>"
_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")


def _number_from(first: int, *names: str) -> dict[str, int]:
    return {name: first + place for place, name in enumerate(names)}


# What gpt-oss calls ids that are otherwise reserved.
_HARMONY = {
    199998: "<|startoftext|>",
    199999: _END,
    200002: "<|return|>",
    200003: "<|constrain|>",
    200005: "<|channel|>",
    200006: "<|start|>",
    200007: "<|end|>",
    200008: "<|message|>",
    200012: "<|call|>",
}
# What a `.tiktoken` file does not hold, by its stem or name: the family of its pattern and special tokens.
ENCODINGS: dict[str, tuple[str, dict[str, int]]] = {
    "gpt2": ("gpt2", {_END: 50256}),
    "r50k_base": ("r50k", {_END: 50256}),
    "p50k_base": ("p50k", {_END: 50256}),
    "p50k_edit": ("p50k", {_END: 50256, **_number_from(50281, *_FIM)}),
    "cl100k_base": ("cl100k", {**_number_from(100257, _END, *_FIM), "<|endofprompt|>": 100276}),
    "o200k_base": ("o200k", {_END: 199999, "<|endofprompt|>": 200018}),
    "o200k_harmony": (
        "o200k",
        {"<|endofprompt|>": 200018}
        | {name: i for i, name in _HARMONY.items()}
        | {f"<|reserved_{i}|>": i for i in range(200000, 201088) if i not in _HARMONY},
    ),
    "qwen": (
        "qwen2",
        _number_from(151643, _END, "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))),
    ),
}


def load_file(path: Path, pattern: str | None) -> Recipe:
    """Load a `.tiktoken` file; a known stem (`cl100k_base`) implies its pattern."""
    special_tokens: dict[str, int] = {}
    if pattern is None:
        if path.stem not in ENCODINGS:
            raise TokenizerError(
                f"{path}: a .tiktoken file has no split pattern, and this is not one of the known "
                f"encodings ({', '.join(ENCODINGS)}); pass pattern=, a regex or one of "
                f"{', '.join(family.name for family in _core.families())}"
            )
        pattern, special_tokens = ENCODINGS[path.stem]
    tokens = _core.read_tiktoken(path.read_bytes(), make_printable(path))
    return _build_recipe(tokens, make_pre_tokenizer(pattern), special_tokens, str(path))


def _build_recipe(
    tokens: _core.Tokens, pre_tokenizer: Json, special_tokens: Mapping[str, int], source: str
) -> Recipe:
    """Return a recipe from tokens whose ids are their ranks, and so the priorities of merges."""
    order: Sequence[int] = range(len(tokens))
    if tokens.count < len(tokens):
        order = tuple(i for i in order if tokens[i] is not None)
    recipe = Recipe(
        source=source,
        format="tiktoken",
        model=Model("bytes", tokens, rank_order=order, ignore_merges=True),
        pre_tokenizer=pre_tokenizer,
        decoder=make_byte_level(use_regex=False),
    )
    return add_specials(recipe, special_tokens)


def from_encoding(encoding: Any) -> Recipe:
    """Return a recipe from a `tiktoken.Encoding` object."""
    source = f"tiktoken:{encoding.name}"
    # tiktoken has no public names for these.
    ranks = _core.Tokens(list(encoding._mergeable_ranks.items()), source)  # noqa: SLF001
    pre_tokenizer = make_regex_pre_tokenizer(encoding._pat_str)  # noqa: SLF001
    return _build_recipe(ranks, pre_tokenizer, encoding._special_tokens, source)  # noqa: SLF001


def load_name(name: str) -> Recipe:
    """Return a published encoding by name, through the `tiktoken` package and its cache."""
    purpose = f"{name}: loading a published encoding by name (or pass the path of {name}.tiktoken)"
    with explain_missing("tiktoken", "tiktoken", purpose):
        import tiktoken
    try:
        return from_encoding(tiktoken.get_encoding(name))
    except Exception as error:
        raise TokenizerError(
            f"{name}: tiktoken could not get this encoding ({error}); offline, set TIKTOKEN_CACHE_DIR to a "
            f"directory that holds it, or pass the path of {name}.tiktoken"
        ) from error


def save_tiktoken(recipe: Recipe) -> dict[str, bytes]:
    """Return the file, one `base64 rank` a line; it does not hold the pattern and the special tokens."""
    refuse_flags(recipe, "tiktoken")
    require_pattern(recipe, "tiktoken")
    ranks = find_ranks(recipe)
    warn_of_template(recipe, "tiktoken")
    lines = (base64.b64encode(token) + f" {rank}\n".encode() for token, rank in ranks.items())
    return {names.TIKTOKEN: b"".join(lines)}


def find_ranks(recipe: Recipe) -> dict[bytes, int]:
    """Return the ids by which tiktoken merges; raise `TokenizerError` if they are not its merges."""
    model = require_byte_level(recipe, "tiktoken")
    if lacks_bytes(model):
        why = "lacks the tokens of some bytes, which a .tiktoken file must have"
        raise refuse(recipe, why, "'hf' or 'vocab-merges'")
    order = model.rank_order or _rank_by_merges(recipe, model)
    return {model.tokens[i] or b"": i for i in order}


def _rank_by_merges(recipe: Recipe, model: Model) -> list[int]:
    """Return ids in rank order; raise unless merging by ids gives the same tokens as the merges."""
    ids = model.map_ids()
    made = [
        ids[(model.tokens[left] or b"") + (model.tokens[right] or b"")] for left, right in model.list_merges()
    ]
    atoms = [i for token, i in ids.items() if len(token) == 1]
    if made != sorted(set(made)) or (made and atoms and min(made) < max(atoms)):
        why = "its ids do not follow the order of its merges, and a .tiktoken file has one number for both"
        raise refuse(recipe, why, "'hf' or 'vocab-merges'")
    other = next((product for pair, product in zip(model.list_merges(), made, strict=True)
                  if _split_by_ranks(model, ids, product) != pair), None)  # fmt: skip
    left_out = set(ids.values()) - {*atoms, *made} if model.ignore_merges else None
    if other is not None or left_out:
        why = "its merges are not those that the ranks of a .tiktoken file give"
        raise refuse(recipe, why, "'hf' or 'vocab-merges'")
    return sorted(atoms) + made


def _split_by_ranks(model: Model, ids: dict[bytes, int], product: int) -> tuple[int, int] | None:
    """Return the last pair that merging by rank joins to make this token; None if it is never made.

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


# The special tokens of files that do not list them (versions before v7), as mistral-common names them.
_OLD_SPECIALS = [
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
    "[SUFFIX]",
]  # fmt: skip


def from_tekken(data: Json, source: str) -> Recipe:
    """Return the recipe of a parsed file: token id = rank + number of special tokens."""
    try:
        config = data["config"]
        specials = int(config["default_num_special_tokens"])
        size = int(config["default_vocab_size"]) - specials
        pairs = [
            (base64.b64decode(item["token_bytes"], validate=True), int(item["rank"]) + specials)
            for item in data["vocab"][: max(size, 0)]
        ]
        pattern = str(config["pattern"])
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise TokenizerError(f"{source}: not a complete tekken.json ({error!r})") from error
    tokens = _core.Tokens(pairs, make_printable(source))
    order = tuple(token_id for _, token_id in sorted(pairs, key=lambda pair: pair[1]))
    return Recipe(
        source=source,
        format="tekken",
        model=Model("bytes", tokens, rank_order=order, ignore_merges=True),
        added=_read_specials(data, specials, source),
        pre_tokenizer=make_regex_pre_tokenizer(pattern),
        decoder=make_byte_level(use_regex=False),
    )


def _read_specials(data: Json, count: int, source: str) -> tuple[AddedToken, ...]:
    listed = data.get("special_tokens")
    if isinstance(listed, list):
        named = {int(item["rank"]): str(item["token_str"]) for item in listed if isinstance(item, dict)}
    else:
        named = dict(enumerate(_OLD_SPECIALS))
    names = [named.get(i, f"<SPECIAL_{i}>") for i in range(count)]
    return check_added((AddedToken(name, i) for i, name in enumerate(names)), f"{source}: special_tokens")
