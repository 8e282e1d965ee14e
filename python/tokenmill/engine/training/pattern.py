"""A pattern as the pre-tokenizer of a `tokenizer.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill import _core

if TYPE_CHECKING:
    from tokenmill.settings.schema import TrainingConfig

Json = dict[str, Any]


def byte_level(*, use_regex: bool) -> Json:
    """HF's ByteLevel step without a prefix space."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def pre_tokenizer_of(pattern: str) -> Json:
    """`"gpt2"` -> HF's ByteLevel; any other name or regex -> its splits, then ByteLevel."""
    steps = _core.pattern_steps(pattern)
    if steps == _core.pattern_steps("gpt2"):
        return byte_level(use_regex=True)
    return split_of(pattern)


def split_of(pattern: str) -> Json:
    """The splits of a name or regex, spelled out, then ByteLevel."""
    splits = [_split(*step) for step in _core.pattern_steps(pattern)]
    return {"type": "Sequence", "pretokenizers": [*splits, byte_level(use_regex=False)]}


def canonical(options: TrainingConfig) -> Json:
    """What decides a vocabulary as plain JSON, with the pattern in its one spelling."""
    return {**options.to_dict(), "pattern": _core.pattern_steps(options.pattern)}


def _split(kind: str, regex: str, behavior: str, flag: bool) -> Json:  # noqa: FBT001 - a row of the core's table
    if kind == "Digits":
        return {"type": "Digits", "individual_digits": flag}
    if kind == "ByteLevel":
        return byte_level(use_regex=True)
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": flag}
    # A user's own regex was counted with the core's engine, and must be encoded with it.
    return {**split, "dialect": "rust"} if behavior == "Removed" else split
