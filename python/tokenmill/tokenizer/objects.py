"""Tokenizer objects of other libraries: tokenizers, transformers, tiktoken."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from tokenmill.errors import TokenizerError
from tokenmill.tokenizer import hf_json, tiktoken

if TYPE_CHECKING:
    from tokenmill.tokenizer.recipe import Json, Recipe

_ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")


def recipe_of(source: Any) -> Recipe:
    """The recipe of an object, by what it can do rather than by its class."""
    kind = f"{type(source).__module__}.{type(source).__name__}"
    if hasattr(source, "_mergeable_ranks") and hasattr(source, "_pat_str"):
        return tiktoken.from_encoding(source)
    inner = getattr(source, "backend_tokenizer", None)
    if inner is None and hasattr(source, "to_str") and hasattr(source, "get_vocab"):
        inner = source
    if inner is None:
        raise TokenizerError(
            f"a {kind} is no tokenizer that tokenmill can read; expected a path, a "
            "tokenizers.Tokenizer, a fast "
            "transformers tokenizer or a tiktoken.Encoding"
        )
    name = str(getattr(source, "name_or_path", "") or kind)
    data = hf_json.parse_json(inner.to_str(), name)
    with warnings.catch_warnings():
        # The object already has the ids that its file may not have had.
        warnings.simplefilter("ignore")
        return hf_json.from_json(data, name, _config(source))


def _config(source: Any) -> Json:
    roles = {role: getattr(source, role, None) for role in _ROLES}
    return {role: str(value) for role, value in roles.items() if value is not None}
