"""What is not a tensor of a grafted model: its configs and its tokenizer follow the new vocabulary."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import InputError, TokenizerError
from tokenmill.tokenizer.files.names import TOKENIZER
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.maps import hash_vocabulary
from tokenmill.vocab.side_files import (
    CONFIG,
    GENERATION,
    copy_settings,
    is_vocabulary,
    is_weights,
    renumber_file,
)
from tokenmill.vocab.tensors import INDEX

if TYPE_CHECKING:
    from tokenmill.vocab.maps import VocabularyMap


def check_tokenizer(model: Path, change: VocabularyMap) -> None:
    """Refuse a model whose own tokenizer is not the base of the map; a model without one says nothing."""
    if not any(is_vocabulary(path) for path in model.iterdir()):
        return
    try:
        own = Tokenizer.load(model)
    except TokenizerError:
        return
    if own.fingerprint == change.base or hash_vocabulary(own.recipe) == change.vocabulary:
        return
    raise InputError(
        f"{model} has a different tokenizer from the base of the map: its fingerprint is "
        f"{own.fingerprint[:16]} ({own.vocab_size:,} ids), the map has {change.base[:16]} "
        f"({change.base_size:,} ids); extend or trim the tokenizer of this model"
    )


def copy_rest(model: Path, staging: Path, done: set[str], change: VocabularyMap) -> bool:
    """Copy the rest of the model, with the new tokenizer in place of the old; returns if there is one."""
    home = change.home if change.home is not None and (change.home / TOKENIZER).is_file() else None
    for path in sorted(model.iterdir()):
        if path.name in done or path.name.startswith(".") or is_weights(path) or is_vocabulary(path):
            continue
        if path.is_dir():
            shutil.copytree(path, staging / path.name, ignore=_leave_out)
        else:
            shutil.copyfile(path, staging / path.name)
    if home is not None:
        shutil.copyfile(home / TOKENIZER, staging / TOKENIZER)
        copy_settings(home, staging)
    return home is not None


def _leave_out(folder: str, names: list[str]) -> list[str]:
    """What `copytree` must not take: the same as above."""
    paths = [Path(folder) / name for name in names]
    return [path.name for path in paths if is_weights(path) or is_vocabulary(path)]


def update_configs(
    staging: Path, rows: int, index: dict[str, Any] | None, total: int, change: VocabularyMap
) -> None:
    """Let `config.json` and the index say what the tensors say."""
    config = staging / CONFIG
    if config.is_file():
        body = json.loads(config.read_text(encoding="utf-8"))
        for part in (body, body.get("text_config")):
            if isinstance(part, dict) and "vocab_size" in part:
                part["vocab_size"] = rows
        config.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if change.same:
        new_ids = {old: new for new, old in change.same.items()}
        for name in (CONFIG, GENERATION):
            renumber_file(staging / name, new_ids)
    if index is not None:
        index.setdefault("metadata", {})["total_size"] = total
        (staging / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
