"""Tokenizer objects of other libraries: tokenizers, transformers, tiktoken."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from tokenmill.errors import TokenizerError, explain_missing
from tokenmill.tokenizer.files import hf_json, tiktoken
from tokenmill.tokenizer.recipe import AddedToken, Recipe

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.tokenizer.recipe import Json

_TOKENIZERS = "tokenizers.Tokenizer"
_ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")


def from_object(source: Any) -> Recipe:
    """The recipe of an object, by what it can do rather than by its class."""
    from tokenmill.tokenizer.engines.python import is_python_tokenizer  # imports multiprocessing

    kind = f"{type(source).__module__}.{type(source).__name__}"
    if hasattr(source, "_mergeable_ranks") and hasattr(source, "_pat_str"):
        return tiktoken.from_encoding(source)
    inner = getattr(source, "backend_tokenizer", None)
    if inner is None and (
        kind == _TOKENIZERS or (hasattr(source, "to_str") and hasattr(source, "get_vocab"))
    ):
        inner = source
    name = str(getattr(source, "name_or_path", "") or kind)
    if inner is None and is_python_tokenizer(source):
        return Recipe(
            name, "python", None, _read_specials(source), config=_read_config(source), python=source
        )
    if inner is None:
        raise TokenizerError(
            f"a {kind} is not a tokenizer that tokenmill can read; expected a path, a tokenizers.Tokenizer, "
            "a transformers tokenizer, a tiktoken.Encoding, or an object with encode(text) or __call__(text)"
        )
    text, config = _spell(inner), _read_config(source)
    with warnings.catch_warnings():
        # The object already has the ids that its file may not have had.
        warnings.simplefilter("ignore")
        return hf_json.from_object(text.encode(errors="surrogatepass"), name, config)


def _spell(inner: Any) -> str:
    """The text of its tokenizer.json; version 1 has no method for it, but pickles as that text."""
    return str(inner.to_str() if hasattr(inner, "to_str") else inner.__reduce__()[1][0])


def from_directory(path: Path) -> Recipe:
    """The recipe of a directory that only transformers can read."""
    with explain_missing("transformers", "hf", f"{path}: this tokenizer"):
        from transformers import AutoTokenizer
    try:
        # Left open, transformers would ask on stdin whether to run the Python that comes with the files.
        return from_object(AutoTokenizer.from_pretrained(str(path), trust_remote_code=False))
    except TokenizerError:
        raise
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise TokenizerError(
                f"{path}: this tokenizer is Python code that comes with its files, which is not run without "
                "your consent. If you trust it, load it yourself with AutoTokenizer.from_pretrained(…, "
                "trust_remote_code=True) and pass the object to Tokenizer.load"
            ) from error
        raise TokenizerError(f"{path}: transformers cannot load it: {error}") from error


def _read_specials(source: Any) -> tuple[AddedToken, ...]:
    """The special tokens of a Python tokenizer, where it gives their ids."""
    ask = getattr(source, "convert_tokens_to_ids", None)
    names = getattr(source, "all_special_tokens", None) or ()
    ids = {str(name): ask(str(name)) for name in names} if callable(ask) else {}
    return tuple(AddedToken(name, token_id) for name, token_id in ids.items() if isinstance(token_id, int))


def _read_config(source: Any) -> Json:
    roles = {role: getattr(source, role, None) for role in _ROLES}
    config: Json = {role: str(value) for role, value in roles.items() if value is not None}
    template = getattr(source, "chat_template", None)
    if isinstance(template, str | dict | list):
        config["chat_template"] = template
    return config
