"""`.tiktoken` files: one `base64(token) rank` a line, with the pattern and the special tokens elsewhere."""

from __future__ import annotations

import binascii
from functools import partial
from typing import TYPE_CHECKING, Any

from tokenmill import _core
from tokenmill.base.errors import TokenizerError
from tokenmill.engine.files.encodings import ENCODINGS
from tokenmill.engine.pre_tokenizer import byte_level, pre_tokenizer_by, pre_tokenizer_of
from tokenmill.engine.recipe import Json, Model, Recipe, check_added, specials_from, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


_strict_base64 = partial(binascii.a2b_base64, strict_mode=True)


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
                f"{path}: a .tiktoken file does not hold its split pattern, and this is none of the known "
                f"encodings ({', '.join(ENCODINGS)}); pass pattern=, a regex or one of "
                f"{', '.join(family.name for family in _core.families())}"
            )
        pattern = known.family
        special_tokens = {**known.special_tokens, **(special_tokens or {})}
    pre_tokenizer = pre_tokenizer_of(pattern)
    tokens = _core.read_tiktoken(data)
    if tokens is None:
        return from_ranks(parse(data, str(path)), pre_tokenizer, special_tokens, str(path))
    order: Sequence[int] = range(len(tokens))
    if tokens.count < len(tokens):
        order = tuple(i for i in order if tokens[i] is not None)
    return _recipe(tokens, order, pre_tokenizer, special_tokens, str(path))


def parse(data: bytes, where: str) -> list[tuple[bytes, int]]:
    """The `(token, rank)` pairs of a file; errors name the line."""
    lines = data.splitlines()
    pairs = _in_bulk([line for line in lines if line])
    if pairs is None:
        pairs = [_pair(line, f"{where}:{number}") for number, line in enumerate(lines, start=1) if line]
    if data and not data.endswith(b"\n") and len(pairs) > 1 and pairs[-1][1] != pairs[-2][1] + 1:
        raise TokenizerError(f"{where}:{len(pairs)}: the last line has no end and its rank breaks the order")
    return pairs


def _in_bulk(lines: list[bytes]) -> list[tuple[bytes, int]] | None:
    """The pairs if every line is good; None asks to look at each."""
    if any(line.count(b" ") != 1 for line in lines):
        return None
    words = b" ".join(lines).split(b" ") if lines else []
    try:
        return list(zip(map(_strict_base64, words[::2]), map(int, words[1::2]), strict=True))
    except ValueError:
        return None


def _pair(line: bytes, where: str) -> tuple[bytes, int]:
    token, _, rank = line.partition(b" ")
    try:
        return _strict_base64(token), int(rank)
    except (binascii.Error, ValueError) as error:
        raise TokenizerError(
            f"{where}: expected 'base64 rank', found {line[:60]!r}; the file is truncated or "
            "damaged: download it again"
        ) from error


def from_ranks(
    ranks: Iterable[tuple[bytes, int]],
    pre_tokenizer: Json,
    special_tokens: Mapping[str, int] | None,
    source: str,
) -> Recipe:
    """A recipe from `(token, rank)` pairs: the rank is the id and the priority of the merge."""
    pairs = sorted(ranks, key=lambda pair: pair[1] if isinstance(pair[1], int) else -1)
    tokens = table_of(pairs, source)
    _check_tokens(pairs, source)
    return _recipe(tokens, tuple(rank for _, rank in pairs), pre_tokenizer, special_tokens, source)


def _recipe(
    tokens: Sequence[bytes | None],
    order: Sequence[int],
    pre_tokenizer: Json,
    special_tokens: Mapping[str, int] | None,
    source: str,
) -> Recipe:
    # Two strings may mean one id to tiktoken, and do in o200k_harmony.
    added = check_added(specials_from(special_tokens), f"{source}: special_tokens", shared=True)
    for token in added:
        if token.id < len(tokens) and tokens[token.id] not in {None, token.content.encode()}:
            raise TokenizerError(
                f"{source}: special token {token.content!r} has the id {token.id}, which belongs to "
                f"{tokens[token.id]!r}; give it a free id ({len(tokens)} or more)"
            )
    model = Model("bytes", tokens, rank_order=order, ignore_merges=True)
    return Recipe(
        source=source,
        format="tiktoken",
        model=model,
        added=added,
        pre_tokenizer=pre_tokenizer,
        decoder=byte_level(use_regex=False),
    )


def _check_tokens(pairs: list[tuple[bytes, int]], source: str) -> None:
    """Refuse an empty token and one with two ranks; the ranks themselves are checked already."""
    known = {token for token, _ in pairs}
    if len(known) == len(pairs) and b"" not in known:
        return
    seen: dict[bytes, int] = {}
    for token, rank in pairs:
        if not token:
            raise TokenizerError(f"{source}: rank {rank} is an empty token")
        if seen.setdefault(token, rank) != rank:
            raise TokenizerError(f"{source}: token {token!r} has the ranks {seen[token]} and {rank}")


def from_encoding(encoding: Any) -> Recipe:
    """A recipe from a `tiktoken.Encoding` object."""
    ranks = encoding._mergeable_ranks  # noqa: SLF001 - tiktoken has no public name for it
    specials = encoding._special_tokens  # noqa: SLF001
    pre_tokenizer = pre_tokenizer_by(encoding._pat_str)  # noqa: SLF001
    return from_ranks(ranks.items(), pre_tokenizer, specials, f"tiktoken:{encoding.name}")


def load_name(name: str) -> Recipe:
    """A published encoding by name, through the `tiktoken` package and its cache."""
    try:
        import tiktoken
    except ImportError as error:
        raise TokenizerError(
            f"{name}: loading a published encoding by name needs the package 'tiktoken' (pip "
            "install tiktoken), "
            f"or pass the path of {name}.tiktoken"
        ) from error
    try:
        return from_encoding(tiktoken.get_encoding(name))
    except Exception as error:
        raise TokenizerError(
            f"{name}: tiktoken could not get this encoding ({error}); offline, set TIKTOKEN_CACHE_DIR to a "
            f"directory that holds it, or pass the path of {name}.tiktoken"
        ) from error
