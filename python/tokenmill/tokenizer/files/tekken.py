"""Mistral's `tekken.json`: byte tokens by rank, with the special tokens before them in the ids."""

from __future__ import annotations

import base64
import binascii

from tokenmill._core import Tokens
from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.recipe import (
    AddedToken,
    Json,
    Model,
    Recipe,
    check_added,
    make_byte_level,
    make_printable,
    make_regex_pre_tokenizer,
)

# The special tokens of files that do not list them (versions before v7), as mistral-common names them.
_OLD_SPECIALS = [
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
    "[SUFFIX]",
]  # fmt: skip


def is_tekken(data: Json) -> bool:
    """Return True if a JSON object is a tekken.json."""
    return isinstance(data.get("config"), dict) and isinstance(data.get("vocab"), list)


def from_json(data: Json, source: str) -> Recipe:
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
    tokens = Tokens(pairs, make_printable(source))
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
