"""`Recipe`: a tokenizer as plain frozen data, the form between loaders, savers and engines.

The steps around the model (normalizer, pre-tokenizer, post-processor, decoder) keep the
JSON form of a `tokenizer.json`, since that is the vocabulary of steps that every other format maps into.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from tokenmill import _core
from tokenmill._core import LARGEST_ID, Merges, Tokens
from tokenmill.errors import ConfigError, TokenizerError

if TYPE_CHECKING:
    from tokenmill.tokenizer.files.hf import HfText

Json = dict[str, Any]
Role = Literal["bos", "eos", "pad", "unk"]

_USUAL: dict[str, tuple[str, ...]] = {  # the wide bars are DeepSeek's own
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<｜begin▁of▁sentence｜>"),  # noqa: RUF001
    "eos": ("</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>"),  # noqa: RUF001
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|finetune_right_pad_id|>", "<｜▁pad▁｜>"),  # noqa: RUF001
    "unk": ("<unk>", "[UNK]"),
}


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A string that is matched before the model encodes the text.

    `special` tokens obey `special=`; the flags are those of Hugging Face: `lstrip`/`rstrip` take the white
    space around the match, `single_word` requires no word character next to it, `normalized` is searched
    after the normalizer instead of before, and a `piece` in the text as the model gets it (SentencePiece's
    user-defined pieces, which Hugging Face does not have).
    """

    content: str
    id: int
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False
    piece: bool = False

    def to_json(self) -> Json:
        """Return one entry of `added_tokens` in a `tokenizer.json`."""
        return {
            "id": self.id,
            "content": self.content,
            "single_word": self.single_word,
            "lstrip": self.lstrip,
            "rstrip": self.rstrip,
            "normalized": self.normalized,
            "special": self.special,
            **({"piece": True} if self.piece else {}),
        }


# What determines ids; `piece` only if it is set, so that older fingerprints stay the same.
_read_fields = attrgetter("content", "id", "special", "lstrip", "rstrip", "single_word", "normalized")


@dataclass(frozen=True, slots=True)
class Model:
    """The BPE itself.

    `kind` "bytes": `tokens` are byte strings and pieces start from single bytes. `kind` "chars": tokens are
    UTF-8 strings and pieces start from characters (SentencePiece style). `merges` are `(left, right)` ids in
    rank order; None means that the rank of a token is its place in `rank_order` (tiktoken).
    """

    kind: Literal["bytes", "chars"]
    tokens: Tokens
    merges: Merges | None = None
    rank_order: Sequence[int] = ()
    ignore_merges: bool = False
    byte_fallback: bool = False
    fuse_unk: bool = False
    unk_id: int | None = None
    end_of_word_suffix: str = ""
    # Entries of the vocabulary that no merge can reach (strings outside the byte alphabet, control tokens).
    unreachable: tuple[tuple[int, bytes], ...] = ()

    def map_ids(self) -> dict[bytes, int]:
        """Return the id of every token."""
        return {token: i for i, token in enumerate(self.tokens) if token is not None}

    def list_merges(self) -> list[tuple[int, int]]:
        """Return the merges in rank order; every split of every token if there are only ranks."""
        merges = self.merges
        return (self.tokens.splits(self.rank_order, self.kind == "chars") if merges is None else merges)[:]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A whole tokenizer. `model` is None if only another engine reads the model (WordPiece, Unigram)."""

    source: str
    format: str
    model: Model | None
    added: tuple[AddedToken, ...] = ()
    normalizer: Json | None = None
    pre_tokenizer: Json | None = None
    post_processor: Json | None = None
    decoder: Json | None = None
    # The tokenizer.json that this came from, for the `huggingface` engine and for models that only HF runs.
    hf: HfText | None = None
    # tokenizer_config.json and special_tokens_map.json, as they were.
    config: Json = field(default_factory=dict)
    # A tokenizer that only Python can call: an object with `encode` or `__call__`, for the `python` engine.
    python: Any = None
    # Why it runs in Python, if the object itself is not the reason.
    reason: str = ""

    def fingerprint(self) -> str:
        """Return a hash of everything that determines ids; names, paths and the decoder are excluded."""
        import hashlib

        if self.python is not None:
            from tokenmill.tokenizer.engines.python import PythonEngine

            return PythonEngine(self.python).fingerprint()
        digest = hashlib.blake2b(digest_size=16)
        digest.update(b"tokenmill-tokenizer-1")
        model = self.model
        if model is None:
            digest.update(_to_canonical(self.hf.to_json() if self.hf else {}))
        else:
            digest.update(model.tokens.digest_bytes())
            merges = b"null" if model.merges is None else model.merges.json().encode()
            digest.update(b"[%b,%b,null]" % (merges, _to_canonical(list(model.rank_order))))
            flags = (model.ignore_merges, model.byte_fallback, model.fuse_unk, model.unk_id)
            digest.update(_to_canonical([model.kind, *flags, model.end_of_word_suffix]))
        added = [[*_read_fields(token), *["piece"] * token.piece] for token in self.added]
        digest.update(_to_canonical([added, self.normalizer, self.pre_tokenizer, self.post_processor]))
        return digest.hexdigest()


def make_printable(source: object) -> str:
    """Return a path for messages of the core; bytes that are not text are escaped."""
    return str(source).encode("utf-8", "backslashreplace").decode()


def _to_canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()


def number_tokens(tokens: Iterable[bytes | None], source: str) -> Tokens:
    """Return tokens whose ids are their list indices; None leaves an id unused."""
    return Tokens([(token, i) for i, token in enumerate(tokens) if token is not None], make_printable(source))


def check_special_string(content: str) -> None:
    """Raise `ConfigError` for a special token that vocabulary files would read as other bytes.

    They write bytes as letters: `é` is the byte 0xE9, and `Ġx` is a space and an x.
    """
    spelled = _core.unspell(content)
    if spelled not in {None, content.encode()}:
        raise ConfigError(
            f"special token {content!r}: vocabulary files write bytes as such letters, where it means "
            f"{spelled!r}; write it without accents"
        )


def build_byte_model(
    tokens: Iterable[tuple[bytes, int]], merges: Iterable[tuple[int, int]], source: str
) -> Model:
    """Return a byte-level model of `(token, id)` pairs and merges that were made in Python."""
    return Model("bytes", Tokens(list(tokens), make_printable(source)), merges=Merges(list(merges)))


def check_added(added: Iterable[AddedToken], where: str, *, shared: bool = False) -> tuple[AddedToken, ...]:
    """Return the tokens; raise for an invalid id, and for a string or an id that two of them have.

    Ids may be `shared`.
    """
    ids: dict[int, str] = {}
    contents: dict[str, int] = {}
    kept = tuple(added)
    for token in kept:
        if type(token.id) is not int or not 0 <= token.id <= LARGEST_ID:
            raise TokenizerError(
                f"{where}: token {token.content!r} has the id {token.id!r}; expected an integer from 0 to "
                f"{LARGEST_ID}"
            )
        if ids.setdefault(token.id, token.content) != token.content and not shared:
            raise TokenizerError(
                f"{where}: id {token.id} belongs to both added tokens {ids[token.id]!r} and {token.content!r}"
            )
        if contents.setdefault(token.content, token.id) != token.id:
            raise TokenizerError(f"{where}: added token {token.content!r} is listed with two ids")
    return kept


def add_specials(recipe: Recipe, special_tokens: Mapping[str, int] | None) -> Recipe:
    """Return the recipe with more special tokens; raise if one has the id of another token."""
    given = itertools.starmap(AddedToken, (special_tokens or {}).items())
    listed = {(token.content, token.id) for token in recipe.added}
    fresh = [token for token in given if (token.content, token.id) not in listed]
    if not fresh:
        return recipe
    # Two strings may mean one id to tiktoken, and do in o200k_harmony.
    shared = recipe.format == "tiktoken"
    added = check_added((*recipe.added, *fresh), f"{recipe.source}: special_tokens", shared=shared)
    tokens = recipe.model.tokens if recipe.model else ()
    for token in fresh:
        if token.id < len(tokens) and tokens[token.id] not in {None, token.content.encode()}:
            raise TokenizerError(
                f"{recipe.source}: special token {token.content!r} has the id {token.id}, which belongs to "
                f"{tokens[token.id]!r}; give it a free id ({len(tokens)} or more)"
            )
    text = recipe.hf
    if text:
        before = text.outline.get("added_tokens") or []
        text = text.with_added([*before, *(token.to_json() for token in fresh)])
    return replace(recipe, added=added, hf=text)


def make_byte_level(*, use_regex: bool) -> Json:
    """Return HF's ByteLevel step without a prefix space."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def make_pre_tokenizer(pattern: str) -> Json:
    """Return HF's ByteLevel for `"gpt2"`; for other families and regexes their splits, then ByteLevel."""
    return _parse(_core.pre_tokenizer(pattern))


def make_regex_pre_tokenizer(regex: str) -> Json:
    """Return the pre-tokenizer of a regex, never of a family name; an empty one keeps the text whole."""
    return _parse(_core.regex_pre_tokenizer(regex)) if regex else make_byte_level(use_regex=False)


def find_pattern(pre_tokenizer: Json | None) -> str | None:
    """Return the family name or regex from which `make_pre_tokenizer` makes this one, or None."""
    return _core.pattern_of(json.dumps(pre_tokenizer))


def find_regex(pre_tokenizer: Json | None) -> str | None:
    """Return the regex whose matches are the pieces, in tiktoken's dialect, or None."""
    return _core.regex_of(json.dumps(pre_tokenizer))


def _parse(text: str) -> Json:
    made: Json = json.loads(text)
    return made


def find_role_id(recipe: Recipe, role: Role) -> int | None:
    """Return the id of a role such as `"eos"`, or None."""
    value = recipe.config.get(f"{role}_token")
    content = value.get("content") if isinstance(value, dict) else value
    named = {token.content: token.id for token in recipe.added}
    if isinstance(content, str) and content in named:
        return named[content]
    special = {token.content: token.id for token in recipe.added if token.special}
    return next((special[name] for name in _USUAL[role] if name in special), None)


def guess_roles(added: Iterable[AddedToken]) -> dict[str, str]:
    """Return the roles of special tokens by their names: `{"eos_token": "<|endoftext|>"}`."""
    special = {token.content for token in added if token.special}
    found = {role: next((name for name in names if name in special), None) for role, names in _USUAL.items()}
    return {f"{role}_token": name for role, name in found.items() if name is not None}
