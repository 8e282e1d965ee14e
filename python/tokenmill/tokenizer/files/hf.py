"""Hugging Face `tokenizer.json`, alone or in a directory with its config files: read and written."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenmill._core import Merges, Spellings, read_hf, spell
from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.files.names import CONFIGS, TOKENIZER, TOKENIZER_CONFIG
from tokenmill.tokenizer.recipe import (
    AddedToken,
    Json,
    Model,
    Recipe,
    check_added,
    guess_roles,
    make_printable,
)


@dataclass(slots=True)
class HfText:
    """A `tokenizer.json`; if it has a `text`, the `outline` has empty `model.vocab` and `model.merges`.

    Parsing those into Python objects takes longer than the rest of loading, and few callers need them.
    """

    outline: Json
    text: bytes | None = None
    changed: bool = False

    @property
    def model(self) -> Json:
        """The options of the model."""
        body = self.outline.get("model")
        return body if isinstance(body, dict) else {}

    def with_added(self, added: list[Any]) -> HfText:
        """Return the same with other added tokens."""
        return HfText({**self.outline, "added_tokens": added}, self.text, changed=True)

    def spell_out(self) -> str:
        """Return the whole as text: that of the file if nothing changed, because serializing is slow."""
        if self.text is not None and not self.changed:
            return self.text.decode()
        return json.dumps(self.to_json(), ensure_ascii=False)

    def to_json(self) -> Json:
        """Return the whole object, as Hugging Face reads it."""
        if self.text is None:
            return self.outline
        whole: Json = json.loads(self.text)
        return {**whole, "added_tokens": self.outline["added_tokens"]} if self.changed else whole


def read_config_beside(path: Path) -> Json:
    """Return the content of the config files in the directory of a `tokenizer.json`."""
    config: Json = {}
    for name in reversed(CONFIGS):
        side = path.with_name(name)
        if side.is_file():
            # The core's reader names the line and the column of an error.
            outline, _ = read_hf(side.read_bytes(), make_printable(side))
            config.update(json.loads(outline))
    return config


def from_outline(
    data: Json, bpe: tuple[Spellings, Merges] | None, text: bytes, source: str, config: Json
) -> Recipe:
    """Return the recipe in a `tokenizer.json` of which the core has read the large parts."""
    body = data.get("model")
    if not isinstance(body, dict):
        raise TokenizerError(
            f"{source}: has no 'model'; expected a tokenizer.json made by Hugging Face tokenizers"
        )
    steps = {
        key: _read_step(data, key, source)
        for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    }
    byte_level = any(step.get("type") == "ByteLevel" for step in walk(steps["pre_tokenizer"]))
    added = _read_added(data.get("added_tokens") or [], source)
    if bpe is not None:
        added = _renumber(added, bpe[0], source)
    return Recipe(
        source=source,
        format="hf",
        model=None if bpe is None else _read_model(body, *bpe, byte_level=byte_level),
        added=add_from_config(added, config, source),
        hf=HfText(data, text),
        config=config,
        reason="",
        **steps,
    )


def _read_step(data: Json, key: str, source: str) -> Json | None:
    step = data.get(key)
    for leaf in walk(step) if step is None or isinstance(step, dict) else [step]:
        if not isinstance(leaf, dict) or not isinstance(leaf.get("type"), str):
            raise TokenizerError(
                f"{source}: {key!r} contains {leaf!r}; expected null or an object with a 'type'"
            )
    return step


def walk(step: Json | None) -> Iterator[Json]:
    """Yield the leaves of nested `Sequence` steps, in order."""
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


def _read_model(body: Json, vocabulary: Spellings, merges: Merges, *, byte_level: bool) -> Model:
    # A token outside the byte alphabet (an added token's string) is never reached by merging bytes.
    tokens, outside = vocabulary.as_bytes() if byte_level else (vocabulary.as_text(), [])
    unk = body.get("unk_token")
    return Model(
        kind="bytes" if byte_level else "chars",
        tokens=tokens,
        merges=merges,
        ignore_merges=bool(body.get("ignore_merges")),
        byte_fallback=bool(body.get("byte_fallback")),
        fuse_unk=bool(body.get("fuse_unk")),
        unk_id=vocabulary.get(unk) if isinstance(unk, str) else None,
        unreachable=tuple(outside),
        end_of_word_suffix=body.get("end_of_word_suffix") or "",
    )


def _read_added(items: Any, source: str) -> tuple[AddedToken, ...]:
    if not isinstance(items, list):
        raise TokenizerError(f"{source}: added_tokens is {type(items).__name__}; expected a list")
    added = []
    for place, item in enumerate(items):
        if not isinstance(item, dict) or not isinstance(item.get("content"), str) or "id" not in item:
            raise TokenizerError(f"{source}: added_tokens[{place}] is {item!r}; expected 'content' and 'id'")
        content = item["content"]
        if not content.isascii() and content.encode(errors="ignore").decode() != content:
            raise TokenizerError(
                f"{source}: added_tokens[{place}]: token {content!r} has a lone surrogate, which no text "
                "can hold"
            )
        added.append(read_added_token(content, item["id"], item))
    return check_added([token for token in added if token.content], f"{source}: added_tokens")


def read_added_token(content: str, token_id: int, flags: Json) -> AddedToken:
    """Return an added token with the flags of a JSON object; `normalized` defaults to not `special`."""
    found = {name: bool(flags.get(name)) for name in ("special", "lstrip", "rstrip", "single_word")}
    normalized = bool(flags.get("normalized", not found["special"]))
    return AddedToken(content, token_id, **found, normalized=normalized, piece=flags.get("piece") is True)


def _renumber(added: tuple[AddedToken, ...], vocabulary: Spellings, source: str) -> tuple[AddedToken, ...]:
    """Give added tokens the ids that HF gives them: those of the vocabulary, else the next free ones.

    HF numbers them in the order of the file.
    """
    size, top, out = len(vocabulary), -1, []
    for token in added:
        token_id = vocabulary.get(token.content)
        if token_id is None:
            token_id = max(top + 1, size)
        top = max(top, token_id)
        if token_id != token.id:
            warnings.warn(
                f"{source}: added token {token.content!r} has the id {token.id} in the file, but Hugging "
                f"Face loads it as {token_id}, and so does tokenmill: list it in model.vocab to fix its id",
                stacklevel=2,
            )
        out.append(replace(token, id=token_id))
    return tuple(sorted(out, key=lambda token: token.id))


def add_from_config(added: tuple[AddedToken, ...], config: Json, source: str) -> tuple[AddedToken, ...]:
    """Add the tokens that only `tokenizer_config.json` lists (older conversions keep some there)."""
    listed = config.get("added_tokens_decoder")
    if not isinstance(listed, dict):
        return added
    known = {token.content for token in added} | {""}
    extra = [
        read_added_token(item["content"], int(key), item)
        for key, item in listed.items()
        if isinstance(item, dict)
        and isinstance(item.get("content"), str)
        and item["content"] not in known
        and key.isdigit()
    ]
    return check_added((*added, *extra), f"{source}: added_tokens_decoder") if extra else added


def save(recipe: Recipe) -> dict[str, bytes]:
    """Return `tokenizer.json` and `tokenizer_config.json`."""
    if any(token.piece for token in recipe.added):
        warnings.warn(
            f"{recipe.source}: has user-defined pieces, which Hugging Face looks for before it writes spaces "
            "as ▁: loaded there, texts that contain them get other ids; loaded here, the same",
            stacklevel=4,
        )
    data = to_json(recipe) if recipe.hf is None else recipe.hf.to_json()
    # Without a config, transformers learns from the guessed roles which token ends a document.
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **(recipe.config or guess_roles(recipe.added))}
    return {
        TOKENIZER_CONFIG: json.dumps(config, ensure_ascii=False, indent=2).encode(),
        # Without an indent: with one, Python's encoder takes ten times as long for a large vocabulary.
        TOKENIZER: json.dumps(data, ensure_ascii=False).encode(),
    }


def to_json(recipe: Recipe) -> Json:
    """Return the object of a `tokenizer.json`."""
    model = recipe.model
    if model is None:
        raise TokenizerError(
            f"{recipe.source}: its model is not BPE and it was not loaded from a tokenizer.json, so none can "
            "be written"
        )
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [token.to_json() for token in sorted(recipe.added, key=lambda token: token.id)],
        "normalizer": recipe.normalizer,
        "pre_tokenizer": recipe.pre_tokenizer,
        "post_processor": recipe.post_processor,
        "decoder": recipe.decoder,
        "model": _model_to_json(recipe, model),
    }


def _model_to_json(recipe: Recipe, model: Model) -> Json:
    write = spell if model.kind == "bytes" else bytes.decode
    vocabulary = spell_vocabulary(recipe, model)
    tokens = [None if token is None else write(token) for token in model.tokens]
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": next((token for token, i in vocabulary.items() if i == model.unk_id), None),
        "continuing_subword_prefix": None,
        "end_of_word_suffix": model.end_of_word_suffix or None,
        "fuse_unk": model.fuse_unk,
        "byte_fallback": model.byte_fallback,
        "ignore_merges": model.ignore_merges,
        "vocab": dict(sorted(vocabulary.items(), key=lambda item: item[1])),
        "merges": [[tokens[left], tokens[right]] for left, right in model.list_merges()],
    }


def spell_vocabulary(recipe: Recipe, model: Model) -> dict[str, int]:
    """Return every token as a vocabulary file spells it, and its id; added tokens are spelled as they are.

    HF renumbers an added token whose string is missing from the vocabulary, so each one is put there.
    """
    write = spell if model.kind == "bytes" else bytes.decode
    vocabulary = {write(token): i for i, token in enumerate(model.tokens) if token is not None}
    for i, data in model.unreachable:
        vocabulary.setdefault(data.decode(), i)
    strings: dict[int, str] = {}
    for token in recipe.added:
        if (other := strings.setdefault(token.id, token.content)) != token.content:
            raise TokenizerError(
                f"{recipe.source}: the special tokens {other!r} and {token.content!r} have the same id "
                f"{token.id}, which a Hugging Face vocabulary cannot hold; save it as 'tiktoken', or load it "
                "with one of them in special_tokens"
            )
        known = vocabulary.setdefault(token.content, token.id)
        twice = model.kind == "bytes" and not token.content.isascii() and spell(token.content.encode())
        if known != token.id or (twice and vocabulary.get(twice) == token.id):
            raise TokenizerError(
                f"{recipe.source}: the special token {token.content!r} (id {token.id}) looks like "
                f"the token {model.tokens[known]!r} (id {known}) in a vocabulary file, which writes bytes as "
                "letters; rename the special token, or save it as 'tiktoken'"
            )
    return vocabulary
