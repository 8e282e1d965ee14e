"""What a tokenizer is, whatever file it came from: the one form between loaders, savers and engines.

A `Recipe` is plain frozen data. Loaders make one, savers write one, and each engine is built from
one. The steps around the model (normalizer, pre-tokenizer, post-processor, decoder) keep the
JSON form of a `tokenizer.json`, since that is the vocabulary of steps that every other format maps into.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from tokenmill._core import LARGEST_ID, Merges, Tokens
from tokenmill.errors import TokenizerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tokenmill.tokenizer.files.hf_text import HfText

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A string that is found in the text before the model sees it.

    `special` tokens obey `special=`; the flags are those of Hugging Face: `lstrip`/`rstrip` take the white
    space beside the match, `single_word` wants no word character beside it, `normalized` is looked for
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
        """One entry of `added_tokens` in a `tokenizer.json`."""
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


# What decides ids; `piece` only where it is set, since most tokenizers are older than it.
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
        """The id of every token."""
        return {token: i for i, token in enumerate(self.tokens) if token is not None}

    def list_merges(self) -> list[tuple[int, int]]:
        """The merges in rank order; where there are only ranks, every split of every token."""
        merges = self.merges
        return (self.tokens.splits(self.rank_order, self.kind == "chars") if merges is None else merges)[:]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A whole tokenizer. `model` is None where only another engine knows the model (WordPiece, Unigram)."""

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
    # Why it runs in Python, where the object itself is not the reason.
    reason: str = ""

    def fingerprint(self) -> str:
        """A hash of everything that decides ids; names, paths and the decoder do not."""
        import hashlib

        if self.python is not None:
            from tokenmill.tokenizer.engines.python import PythonTokenizer

            return PythonTokenizer(self.python).fingerprint()
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
    """A path as the core names it in messages: a file name may contain bytes that are not text."""
    return str(source).encode("utf-8", "backslashreplace").decode()


def _to_canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()


def number_tokens(tokens: Iterable[bytes | None], source: str) -> Tokens:
    """Tokens whose ids are their places in a list; None leaves a hole."""
    return Tokens([(token, i) for i, token in enumerate(tokens) if token is not None], make_printable(source))


def build_byte_model(
    tokens: Iterable[tuple[bytes, int]], merges: Iterable[tuple[int, int]], source: str
) -> Model:
    """A byte-level model of `(token, id)` pairs and merges that were made in Python."""
    return Model("bytes", Tokens(list(tokens), make_printable(source)), merges=Merges(list(merges)))


def check_id(token_id: Any, token: object, where: str) -> int:
    """The id if it is an integer that a table can hold; otherwise an error that names the token."""
    if isinstance(token_id, bool) or not isinstance(token_id, int) or not 0 <= token_id <= LARGEST_ID:
        raise TokenizerError(
            f"{where}: token {token!r} has the id {token_id!r}; expected an integer from 0 to {LARGEST_ID}"
        )
    return token_id


def check_added(added: Iterable[AddedToken], where: str, *, shared: bool = False) -> tuple[AddedToken, ...]:
    """The tokens as given, once no two of them claim one string, nor one id unless ids may be `shared`."""
    ids: dict[int, str] = {}
    contents: dict[str, int] = {}
    kept = tuple(added)
    for token in kept:
        check_id(token.id, token.content, where)
        if ids.setdefault(token.id, token.content) != token.content and not shared:
            raise TokenizerError(
                f"{where}: id {token.id} belongs to both added tokens {ids[token.id]!r} and {token.content!r}"
            )
        if contents.setdefault(token.content, token.id) != token.id:
            raise TokenizerError(f"{where}: added token {token.content!r} is listed with two ids")
    return kept


def to_specials(mapping: Mapping[str, int] | None) -> tuple[AddedToken, ...]:
    """`{"<|endoftext|>": 50256}` -> special tokens as tiktoken understands them."""
    return tuple(AddedToken(content, token_id) for content, token_id in (mapping or {}).items())


def check_specials(
    tokens: Tokens, special_tokens: Mapping[str, int] | None, source: str, *, shared: bool = False
) -> tuple[AddedToken, ...]:
    """The caller's special tokens, once none of them has the id of another token."""
    added = check_added(to_specials(special_tokens), f"{source}: special_tokens", shared=shared)
    for token in added:
        if token.id < len(tokens) and tokens[token.id] not in {None, token.content.encode()}:
            raise TokenizerError(
                f"{source}: special token {token.content!r} has the id {token.id}, which belongs to "
                f"{tokens[token.id]!r}; give it a free id ({len(tokens)} or more)"
            )
    return added
