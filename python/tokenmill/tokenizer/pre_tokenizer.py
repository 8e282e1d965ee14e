"""Pre-tokenizers of byte-level models as a `tokenizer.json` has them; the families are in the core."""

from __future__ import annotations

import json
from typing import Any

from tokenmill import _core

Json = dict[str, Any]


def make_byte_level(*, use_regex: bool) -> Json:
    """HF's ByteLevel step without a prefix space."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def make_pre_tokenizer(pattern: str) -> Json:
    """`"gpt2"` -> HF's ByteLevel; any other family, or a regex -> its splits, then ByteLevel."""
    return _parse(_core.pre_tokenizer(pattern))


def make_regex_pre_tokenizer(regex: str) -> Json:
    """The same for a regex that a file holds; it is never taken for a name."""
    return _parse(_core.regex_pre_tokenizer(regex))


def find_pattern(pre_tokenizer: Json | None) -> str | None:
    """What `make_pre_tokenizer` takes to give this one, a family's name or a regex; None if neither does."""
    return _core.pattern_of(json.dumps(pre_tokenizer))


def find_regex(pre_tokenizer: Json | None) -> str | None:
    """The one regex whose matches are the pieces, in tiktoken's dialect; None where there is none."""
    return _core.regex_of(json.dumps(pre_tokenizer))


def _parse(text: str) -> Json:
    made: Json = json.loads(text)
    return made
