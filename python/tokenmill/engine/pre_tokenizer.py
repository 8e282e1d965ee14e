"""Pre-tokenizers of byte-level models as a `tokenizer.json` has them; the families are in the core."""

from __future__ import annotations

import json
from typing import Any

from tokenmill import _core

Json = dict[str, Any]


def byte_level(*, use_regex: bool) -> Json:
    """HF's ByteLevel step without a prefix space."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def pre_tokenizer_of(pattern: str) -> Json:
    """`"gpt2"` -> HF's ByteLevel; any other family, or a regex -> its splits, then ByteLevel."""
    return _object(_core.pre_tokenizer(pattern))


def pre_tokenizer_by(regex: str) -> Json:
    """The same for a regex that a file holds; it is never taken for a name."""
    return _object(_core.regex_pre_tokenizer(regex))


def pattern_of(pre_tokenizer: Json | None) -> str | None:
    """What `pre_tokenizer_of` takes to give this one, a family's name or a regex; None where neither does."""
    return _core.pattern_of(json.dumps(pre_tokenizer))


def regex_of(pre_tokenizer: Json | None) -> str | None:
    """The one regex whose matches are the pieces, in tiktoken's dialect; None where there is none."""
    return _core.regex_of(json.dumps(pre_tokenizer))


def _object(text: str) -> Json:
    made: Json = json.loads(text)
    return made
