"""Which special token is BOS, EOS, padding: what the config files say, else one with a usual name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenmill.tokenizer.recipe import AddedToken, Recipe

Role = Literal["bos", "eos", "pad", "unk"]

_USUAL: dict[str, tuple[str, ...]] = {  # the wide bars are DeepSeek's own
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<｜begin▁of▁sentence｜>"),  # noqa: RUF001
    "eos": ("</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>"),  # noqa: RUF001
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|finetune_right_pad_id|>", "<｜▁pad▁｜>"),  # noqa: RUF001
    "unk": ("<unk>", "[UNK]"),
}


def find_role_id(recipe: Recipe, role: Role) -> int | None:
    """`find_role_id(recipe, "eos")` -> 50256, or None where nothing has the role."""
    value = recipe.config.get(f"{role}_token")
    content = value.get("content") if isinstance(value, dict) else value
    named = {token.content: token.id for token in recipe.added}
    if isinstance(content, str) and content in named:
        return named[content]
    special = {token.content: token.id for token in recipe.added if token.special}
    return next((special[name] for name in _USUAL[role] if name in special), None)


def guess_roles(added: Iterable[AddedToken]) -> dict[str, str]:
    """`{"eos_token": "<|endoftext|>"}`: the roles that special tokens have by their names."""
    special = {token.content for token in added if token.special}
    found = {role: next((name for name in names if name in special), None) for role, names in _USUAL.items()}
    return {f"{role}_token": name for role, name in found.items() if name is not None}
