"""What is wanted of an extension, what a new token is, and which id it gets."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tokenmill import _core

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from tokenmill.tokenizer.recipe import Json, Recipe
    from tokenmill.tokenizer.tokenizer import Tokenizer

# What vocabularies call the tokens that they keep for later.
_RESERVED = re.compile(r"reserved|unused|extra_id|extra_\d|placeholder|dummy", re.IGNORECASE)


@dataclass(frozen=True)
class NewToken:
    """A token that an extension adds: what it spells, the old ids it stands for, how often it was seen."""

    id: int
    bytes: bytes
    parts: tuple[int, ...]
    count: int


@dataclass(frozen=True)
class Wishes:
    """What decides the new tokens beside the counts."""

    add: int
    min_frequency: int = 2
    max_token_length: int = 1 << 16
    tie_break: str = "huggingface"
    scripts: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    reuse_reserved: bool = False


def check_scripts(names: Sequence[str]) -> None:
    """Refuse a name that is not a script before anything is read."""
    _core.in_scripts([], list(names))


@dataclass(frozen=True)
class NewIds:
    """The ids of new tokens in order, and which of them reserved special tokens had."""

    ids: tuple[int, ...]
    taken: frozenset[int]

    @classmethod
    def choose(cls, base: Tokenizer, number: int, *, reuse_reserved: bool) -> NewIds:
        """The ids after the last of `base`, or those that it reserves first."""
        special = sorted((token.id, token.content) for token in base.recipe.added if token.special)
        kept = [token_id for token_id, content in special if _RESERVED.search(content)]
        reserved = kept[:number] if reuse_reserved else []
        first = base.vocab_size
        ids = (*reserved, *range(first, first + number - len(reserved)))
        return cls(ids, frozenset(reserved))

    def make_table(self, tokens: Iterable[bytes | None]) -> list[bytes | None]:
        """A copy of a table of tokens with room for the new ones."""
        table = list(tokens)
        return table + [None] * (max(self.ids, default=-1) + 1 - len(table))

    def drop_taken(self, recipe: Recipe) -> Recipe:
        """The recipe without the special tokens whose ids are taken, in its config files too."""
        model = recipe.model
        assert model is not None, "check_base comes first"
        if not self.taken:
            return recipe
        gone = {token.content for token in recipe.added if token.id in self.taken}
        return replace(
            recipe,
            model=replace(
                model, unreachable=tuple((i, data) for i, data in model.unreachable if i not in self.taken)
            ),
            added=tuple(token for token in recipe.added if token.id not in self.taken),
            config=_drop_tokens(recipe.config, self.taken, gone),
        )


def _drop_tokens(config: Json, ids: frozenset[int], contents: set[str]) -> Json:
    """A `tokenizer_config.json` that does not list these tokens."""

    def get_content(entry: Any) -> Any:
        return entry.get("content") if isinstance(entry, dict) else entry

    out = dict(config)
    listed = out.get("added_tokens_decoder")
    if isinstance(listed, dict):
        out["added_tokens_decoder"] = {
            key: value for key, value in listed.items() if not (key.isdigit() and int(key) in ids)
        }
    for key in ("additional_special_tokens", "extra_special_tokens"):
        names = out.get(key)
        if isinstance(names, list):
            out[key] = [entry for entry in names if get_content(entry) not in contents]
    return out
