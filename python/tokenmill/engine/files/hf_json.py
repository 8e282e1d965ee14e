"""Hugging Face `tokenizer.json`, alone or in a directory with its config files."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenmill._core import Merges, Spellings, read_hf
from tokenmill.base.errors import TokenizerError, TokenizerNotFoundError
from tokenmill.engine.files.alphabet import bytes_of_all
from tokenmill.engine.files.hf_text import HfText
from tokenmill.engine.files.merge_list import merges_of
from tokenmill.engine.recipe import (
    AddedToken,
    Json,
    Model,
    Recipe,
    all_ids,
    check_added,
    check_id,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

SIDE_FILES = ("tokenizer_config.json", "special_tokens_map.json")


@dataclass(frozen=True, slots=True)
class _Large:
    """What the core read of a file: the vocabulary and the merges, checked, and the text that holds them."""

    vocabulary: Spellings
    merges: Merges
    text: bytes


def load_file(path: Path, data: Json | None = None) -> Recipe:
    """A `tokenizer.json`, parsed already or not; config files beside it are read too."""
    return from_json(read_json(path) if data is None else data, str(path), _config_beside(path))


def load_quickly(path: Path) -> Recipe | None:
    """The same by the core's reader, which knows good files only; None asks for `load_file`."""
    return from_text(path.read_bytes(), str(path), lambda: _config_beside(path))


def from_text(text: bytes, source: str, config: Callable[[], Json]) -> Recipe | None:
    """The recipe in the text of a `tokenizer.json`; None where that takes a closer look."""
    found = read_hf(text)
    if found is None:
        return None
    outline, vocabulary, merges = found
    try:
        data = json.loads(outline)
    except (RecursionError, ValueError):
        return None
    return from_json(data, source, config(), _Large(vocabulary, merges, text))


def _config_beside(path: Path) -> Json:
    config: Json = {}
    for name in reversed(SIDE_FILES):
        side = path.with_name(name)
        if side.is_file():
            config.update(read_json(side))
    return config


def read_json(path: Path) -> Json:
    """The object in a JSON file; errors name the line and the column."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise TokenizerNotFoundError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    return parse_json(text, str(path))


def parse_json(text: str, where: str) -> Json:
    """As `json.loads`, for an object, with errors of ours."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise TokenizerError(
            f"{where}:{error.lineno}:{error.colno}: not valid JSON ({error.msg}); download or save "
            "the file again"
        ) from error
    except (RecursionError, ValueError) as error:
        raise TokenizerError(f"{where}: not readable as JSON: {error}") from error
    if not isinstance(data, dict):
        raise TokenizerError(f"{where}: expected a JSON object, found {type(data).__name__}")
    return data


def from_json(data: Json, source: str, config: Json | None = None, large: _Large | None = None) -> Recipe:
    """The recipe in a parsed `tokenizer.json`; `large` has the parts of it that the core has read."""
    body = data.get("model")
    if not isinstance(body, dict):
        raise TokenizerError(
            f"{source}: has no 'model'; expected a tokenizer.json of Hugging Face tokenizers"
        )
    steps = {
        key: _step(data, key, source) for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    }
    is_bpe = body.get("type", "BPE" if "merges" in body else "") == "BPE"
    byte_level = any(step.get("type") == "ByteLevel" for step in walk(steps["pre_tokenizer"]))
    vocabulary: dict[str, int] | Spellings = {}
    model = None
    if is_bpe and large is not None:
        vocabulary = large.vocabulary
        model = _bpe_read(body, large, byte_level=byte_level)
    elif is_bpe:
        vocabulary = _vocabulary(body, source)
        model = _bpe(body, vocabulary, source, byte_level=byte_level)
    added = _added(data.get("added_tokens") or [], vocabulary, source, renumber=is_bpe)
    return Recipe(
        source=source,
        format="hf",
        model=model,
        added=_with_config(added, config or {}, source),
        hf=HfText(data, None if large is None else large.text),
        config=config or {},
        **steps,
    )


def _step(data: Json, key: str, source: str) -> Json | None:
    step = data.get(key)
    if step is not None and (not isinstance(step, dict) or not isinstance(step.get("type"), str)):
        raise TokenizerError(f"{source}: {key!r} is {step!r}; expected null or an object with a 'type'")
    for leaf in walk(step):
        if not isinstance(leaf.get("type"), str):
            raise TokenizerError(f"{source}: a step of {key!r} is {leaf!r}; expected an object with a 'type'")
    return step


def walk(step: Json | None) -> Iterator[Json]:
    """The leaves of nested `Sequence` steps, in order."""
    if step is None:
        return
    if step.get("type") != "Sequence":
        yield step
        return
    for key in ("normalizers", "pretokenizers", "processors", "decoders"):
        inner = step.get(key)
        for child in inner if isinstance(inner, list) else ():
            if isinstance(child, dict):
                yield from walk(child)


def _vocabulary(body: Json, source: str) -> dict[str, int]:
    vocabulary = body.get("vocab")
    if not isinstance(vocabulary, dict) or not vocabulary:
        raise TokenizerError(f"{source}: model.vocab is missing or empty; expected an object of token -> id")
    if not all_ids(vocabulary.values()):
        for token, token_id in vocabulary.items():
            check_id(token_id, token, f"{source}: model.vocab")
    return vocabulary


def _bpe(body: Json, vocabulary: dict[str, int], source: str, *, byte_level: bool) -> Model:
    where = f"{source}: model.vocab"
    if byte_level:
        # A token outside the alphabet (an added token's string) is never reached by merging bytes.
        spelled = bytes_of_all(vocabulary)
        if len(set(vocabulary.values())) < len(vocabulary):
            # An id given twice is refused with the tokens as the file spells them.
            table_of(((token.encode(errors="surrogatepass"), i) for token, i in vocabulary.items()), where)
        entries = [
            (data, i) for data, i in zip(spelled, vocabulary.values(), strict=True) if data is not None
        ]
        outside = [
            (i, _utf8(token, where))
            for data, (token, i) in zip(spelled, vocabulary.items(), strict=True)
            if data is None
        ]
    else:
        entries = [(_utf8(token, where), token_id) for token, token_id in vocabulary.items()]
        outside = []
    merges = merges_of(body.get("merges"), vocabulary, source)
    return _model(
        body, vocabulary, table_of(entries, where), merges, outside=tuple(outside), byte_level=byte_level
    )


def _bpe_read(body: Json, large: _Large, *, byte_level: bool) -> Model:
    if byte_level:
        tokens, outside = large.vocabulary.as_bytes()
    else:
        tokens, outside = large.vocabulary.as_text(), []
    return _model(body, large.vocabulary, tokens, large.merges, outside=tuple(outside), byte_level=byte_level)


def _model(
    body: Json,
    vocabulary: dict[str, int] | Spellings,
    tokens: Sequence[bytes | None],
    merges: Sequence[tuple[int, int]],
    *,
    outside: tuple[tuple[int, bytes], ...],
    byte_level: bool,
) -> Model:
    unk = body.get("unk_token")
    return Model(
        kind="bytes" if byte_level else "chars",
        tokens=tokens,
        merges=merges,
        ignore_merges=bool(body.get("ignore_merges")),
        byte_fallback=bool(body.get("byte_fallback")),
        fuse_unk=bool(body.get("fuse_unk")),
        unk_id=vocabulary.get(unk) if isinstance(unk, str) else None,
        unreachable=outside,
        end_of_word_suffix=body.get("end_of_word_suffix") or "",
    )


def _utf8(token: str, where: str) -> bytes:
    try:
        return token.encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(f"{where}: token {token!r} holds a lone surrogate, which no text can") from error


def _added(
    items: Any, vocabulary: dict[str, int] | Spellings, source: str, *, renumber: bool
) -> tuple[AddedToken, ...]:
    if not isinstance(items, list):
        raise TokenizerError(f"{source}: added_tokens is {type(items).__name__}; expected a list")
    added = []
    for place, item in enumerate(items):
        if not isinstance(item, dict) or not isinstance(item.get("content"), str) or "id" not in item:
            raise TokenizerError(f"{source}: added_tokens[{place}] is {item!r}; expected 'content' and 'id'")
        _utf8(item["content"], f"{source}: added_tokens[{place}]")
        added.append(added_token(item["content"], check_id(item["id"], item["content"], source), item))
    kept = check_added([token for token in added if token.content], f"{source}: added_tokens")
    return _renumbered(kept, vocabulary, source) if renumber else kept


def added_token(content: str, token_id: int, flags: Json) -> AddedToken:
    """An added token with the flags of a JSON object; `normalized` defaults to the opposite of `special`."""
    special = bool(flags.get("special"))
    return AddedToken(
        content,
        token_id,
        special=special,
        lstrip=bool(flags.get("lstrip")),
        rstrip=bool(flags.get("rstrip")),
        single_word=bool(flags.get("single_word")),
        normalized=bool(flags.get("normalized", not special)),
    )


def _renumbered(
    added: tuple[AddedToken, ...], vocabulary: dict[str, int] | Spellings, source: str
) -> tuple[AddedToken, ...]:
    """The ids that HF gives when it loads the file: those of the vocabulary, else the next free ones."""
    size, top, out = len(vocabulary), -1, []
    for token in sorted(added, key=lambda token: token.id):
        token_id = vocabulary.get(token.content)
        if token_id is None:
            token_id = max(top + 1, size)
        top = max(top, token_id)
        if token_id != token.id:
            warnings.warn(
                f"{source}: added token {token.content!r} has the id {token.id} in the file, but "
                "Hugging Face "
                f"loads it as {token_id}, and so does tokenmill: list it in model.vocab to fix its id",
                stacklevel=2,
            )
        out.append(AddedToken(token.content, token_id, *_flags(token)))
    return tuple(out)


def _flags(token: AddedToken) -> tuple[bool, bool, bool, bool, bool]:
    return token.special, token.lstrip, token.rstrip, token.single_word, token.normalized


def _with_config(added: tuple[AddedToken, ...], config: Json, source: str) -> tuple[AddedToken, ...]:
    """Adds the tokens that only `tokenizer_config.json` lists (older conversions keep some there)."""
    listed = config.get("added_tokens_decoder")
    if not isinstance(listed, dict):
        return added
    known = {token.content for token in added} | {""}
    extra = [
        added_token(item["content"], int(key), item)
        for key, item in listed.items()
        if isinstance(item, dict) and item.get("content", "") not in known and key.isdigit()
    ]
    return check_added((*added, *extra), f"{source}: added_tokens_decoder") if extra else added
