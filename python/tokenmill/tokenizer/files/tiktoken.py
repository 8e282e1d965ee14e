"""`.tiktoken` files: one `base64(token) rank` a line, with the pattern and the special tokens elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill import _core
from tokenmill.errors import TokenizerError, explain_missing
from tokenmill.tokenizer.files.encodings import ENCODINGS
from tokenmill.tokenizer.pre_tokenizer import make_byte_level, make_pre_tokenizer, make_regex_pre_tokenizer
from tokenmill.tokenizer.recipe import Json, Model, Recipe, check_specials, make_printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def load_file(path: Path, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Recipe:
    """A `.tiktoken` file, plain or gzipped; a known stem (`cl100k_base`) brings its pattern along."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        import gzip

        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, ValueError) as error:
            raise TokenizerError(f"{path}: not a complete gzip file: {error}") from error
    if pattern is None:
        known = ENCODINGS.get(path.name.split(".")[0])
        if known is None:
            raise TokenizerError(
                f"{path}: a .tiktoken file does not hold its split pattern, and this is not one of the known "
                f"encodings ({', '.join(ENCODINGS)}); pass pattern=, a regex or one of "
                f"{', '.join(family.name for family in _core.families())}"
            )
        pattern = known.family
        special_tokens = {**known.special_tokens, **(special_tokens or {})}
    pre_tokenizer = make_pre_tokenizer(pattern)
    return _build_recipe(
        _core.read_tiktoken(data, make_printable(path)), pre_tokenizer, special_tokens, str(path)
    )


def _build_recipe(
    tokens: _core.Tokens, pre_tokenizer: Json, special_tokens: Mapping[str, int] | None, source: str
) -> Recipe:
    """A recipe from tokens whose ids are their ranks, and so the priorities of merges."""
    # Two strings may mean one id to tiktoken, and do in o200k_harmony.
    added = check_specials(tokens, special_tokens, source, shared=True)
    order: Sequence[int] = range(len(tokens))
    if tokens.count < len(tokens):
        order = tuple(i for i in order if tokens[i] is not None)
    return Recipe(
        source=source,
        format="tiktoken",
        model=Model("bytes", tokens, rank_order=order, ignore_merges=True),
        added=added,
        pre_tokenizer=pre_tokenizer,
        decoder=make_byte_level(use_regex=False),
    )


def from_encoding(encoding: Any) -> Recipe:
    """A recipe from a `tiktoken.Encoding` object."""
    source = f"tiktoken:{encoding.name}"
    # tiktoken has no public names for these.
    ranks = _core.Tokens(list(encoding._mergeable_ranks.items()), source)  # noqa: SLF001
    pre_tokenizer = make_regex_pre_tokenizer(encoding._pat_str)  # noqa: SLF001
    return _build_recipe(ranks, pre_tokenizer, encoding._special_tokens, source)  # noqa: SLF001


def load_name(name: str) -> Recipe:
    """A published encoding by name, through the `tiktoken` package and its cache."""
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
