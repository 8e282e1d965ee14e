"""The files of a finished training: the tokenizer in the formats asked for, and where it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tokenmill.dataset.durable import publish_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tokenmill.tokenizer.tokenizer import Tokenizer

SaveFormat = Literal["hf", "tiktoken", "vocab-merges", "minbpe"]
PROVENANCE = "training.json"
_NAMES: dict[str, str] = {"tiktoken": "tokenizer.tiktoken", "minbpe": "tokenizer.model"}


def save_all(
    tokenizer: Tokenizer, output: Path, formats: Iterable[SaveFormat], provenance: dict[str, Any]
) -> None:
    """Write every format, then `training.json`: whoever sees that file sees a whole training."""
    output.mkdir(parents=True, exist_ok=True)
    for form in formats:
        tokenizer.save(output / _NAMES.get(form, ""), format=form)
    publish_json(output / PROVENANCE, {"version": 1, **provenance, "fingerprint": tokenizer.fingerprint})
