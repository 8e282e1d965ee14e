"""From whatever names a tokenizer to its recipe: looks at what the source is and calls its loader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill import _core
from tokenmill.base.near import near_paths
from tokenmill.errors import TokenizerError, TokenizerNotFoundError
from tokenmill.tokenizer import hub, objects
from tokenmill.tokenizer.files import names, tiktoken
from tokenmill.tokenizer.files.encodings import ENCODINGS
from tokenmill.tokenizer.files.kinds import KINDS, find_in, find_kind
from tokenmill.tokenizer.recipe import AddedToken, Recipe, check_added

if TYPE_CHECKING:
    from collections.abc import Mapping

# Of a path, and of each name in it, on any system.
_LONGEST_PATH, _LONGEST_NAME = 4096, 255


def load_recipe(
    source: Any, *, pattern: str | None = None, special_tokens: Mapping[str, int] | None = None
) -> Recipe:
    """The recipe of a path, a name, a hub id or an object."""
    if pattern is not None:
        # A misspelled family is an error even for a file that has a pattern of its own.
        _core.pre_tokenizer(pattern)
    source = getattr(source, "recipe", source)
    _check_length(source)
    if isinstance(source, (str, Path)) and needs_python(Path(source)):
        source = objects.from_directory(Path(source))
    if isinstance(source, Recipe):
        return add_specials(source, special_tokens)
    if not isinstance(source, (str, Path)):
        return add_specials(objects.from_object(source), special_tokens)
    path = Path(source)
    if path.is_dir():
        path = _find_file(path)
    if path.is_file():
        return _load_file(path, pattern, special_tokens)
    name = str(source)
    if name in ENCODINGS and not path.suffix:
        return add_specials(_load_by_name(name), special_tokens)
    # A typo is reported at once, without asking the hub.
    near = [str(each) for each in near_paths(path) if _holds_tokenizer(each)]
    if near and not (hub.looks_like_id(name) and hub.is_cached(name)):
        raise TokenizerNotFoundError(
            f"{name}: no such file or directory; did you mean {' or '.join(near)}? For a tokenizer of that "
            "name on the hub, fetch it first (hf download)"
        )
    if hub.looks_like_id(name):
        return _load_file(_find_file(hub.fetch(name)), pattern, special_tokens)
    raise TokenizerNotFoundError(
        f"{name}: no such file or directory; expected a tokenizer.json (or its directory), a .tiktoken, "
        f"vocab.json + merges.txt, a SentencePiece or minbpe .model, a hub id such as org/name, or one of "
        f"{', '.join(ENCODINGS)}"
    )


def _check_length(source: Any) -> None:
    """The system would refuse to look for such a name, with an error of its own."""
    if not isinstance(source, (str, Path)):
        return
    if len(str(source)) > _LONGEST_PATH or max(map(len, Path(source).parts), default=0) > _LONGEST_NAME:
        raise TokenizerNotFoundError(f"{str(source)[:80]!r}… is too long to name a file or a tokenizer")


def _holds_tokenizer(path: Path) -> bool:
    return find_in(path) is not None if path.is_dir() else path.is_file() and find_kind(path) is not None


def needs_python(path: Path) -> bool:
    """Whether this is a saved transformers tokenizer that only its own class can load."""
    return (path / names.TOKENIZER_CONFIG).is_file() and find_in(path) is None


def _load_by_name(name: str) -> Recipe:
    """A published encoding; `gpt2` is also a hub id, and either will do."""
    try:
        return tiktoken.load_name(name)
    except TokenizerError:
        try:
            return _load_file(_find_file(hub.fetch(name)), None, None)
        except (TokenizerError, ImportError):
            pass
        raise


def _find_file(path: Path) -> Path:
    if found := find_in(path):
        return found
    others = [file for end in (names.ANY_TIKTOKEN, names.ANY_MODEL) for file in path.glob(f"*{end}")]
    if len(others) == 1:
        return others[0]
    usual = ", ".join(dict.fromkeys(kind.file for kind in KINDS.values()))
    raise TokenizerNotFoundError(
        f"{path}: holds no tokenizer; expected one of {usual}, or one .tiktoken or .model"
    )


def _load_file(path: Path, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Recipe:
    kind = find_kind(path)
    if kind is None:
        raise TokenizerError(
            f"{path}: unknown kind of tokenizer file; expected .json, .tiktoken, .model, or merges.txt "
            "beside vocab.json"
        )
    try:
        return add_specials(kind.load(path, pattern, special_tokens), special_tokens)
    except OSError as error:
        if isinstance(error, TokenizerError):
            raise
        raise TokenizerError(f"{path}: cannot be read: {error}") from error


def add_specials(recipe: Recipe, special_tokens: Mapping[str, int] | None) -> Recipe:
    """The recipe with the caller's special tokens added."""
    known = {token.content for token in recipe.added}
    fresh = [AddedToken(content, i) for content, i in (special_tokens or {}).items() if content not in known]
    if not fresh:
        return recipe
    added = check_added((*recipe.added, *fresh), f"{recipe.source}: special_tokens")
    hf = recipe.hf
    if hf:
        listed = hf.outline.get("added_tokens") or []
        hf = hf.with_added([*listed, *(token.to_json() for token in fresh)])
    return replace(recipe, added=added, hf=hf)
