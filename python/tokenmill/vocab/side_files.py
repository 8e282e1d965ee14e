"""What lies beside a tokenizer or a model and comes along when its vocabulary changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.tokenizer.files.names import (
    CHAT_TEMPLATES,
    CONFIGS,
    MODEL,
    TEKKEN,
    TOKENIZER,
    VOCAB,
    VOCABULARIES,
)
from tokenmill.vocab.maps import EXTENSION, TRIM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.tokenizer.recipe import Json

CONFIG = "config.json"
GENERATION = "generation_config.json"
# Weights in other forms: beside the rewritten ones, they would be of the old vocabulary.
_WEIGHTS = (
    "*.bin",
    "*.bin.index.json",
    "*.pt",
    "*.pth",
    "*.h5",
    "*.msgpack",
    "*.gguf",
    "*.onnx",
    "*.safetensors",
)
# What a tokenizer's directory holds beside those: settings, templates, code, licences. Weights, corpora and
# the model's own config.json, whose vocab_size would be wrong, are none of it.
_SETTINGS = ("*.json", "*.jinja", "*.py", "*.md", "LICENSE*", "NOTICE*")
_NOT_SETTINGS = (*VOCABULARIES, *CONFIGS, CONFIG, "*.index.json", EXTENSION, TRIM)
_MOST_BYTES = 16 << 20


def is_vocabulary(path: Path) -> bool:
    """Whether a file holds a vocabulary: beside the new one, an old one would say something else."""
    return any(path.match(pattern) for pattern in VOCABULARIES)


def is_weights(path: Path) -> bool:
    """Whether a file holds a model's weights."""
    return any(path.match(pattern) for pattern in _WEIGHTS)


def find_home(source: str) -> Path | None:
    """The directory that belongs to a tokenizer; None for a lone file among others."""
    path = Path(source)
    whole = path.name in {TOKENIZER, VOCAB, TEKKEN, MODEL}
    return path.parent if whole and path.is_file() else None


def copy_settings(
    home: Path, target: Path, new_ids: Mapping[int, int] | None = None, *, config_too: bool = True
) -> None:
    """Copy what belongs to a tokenizer from `home`; `new_ids` renumbers what names ids.

    The configs that list tokens are copied as they are, or left as they were saved unless `config_too`.
    """
    for path in sorted(home.iterdir()):
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            continue
        wanted = any(path.match(pattern) for pattern in _SETTINGS)
        if path.name in CONFIGS:
            if config_too:
                shutil.copyfile(path, target / path.name)
        elif wanted and not any(path.match(pattern) for pattern in _NOT_SETTINGS):
            shutil.copyfile(path, target / path.name)
    if (home / CHAT_TEMPLATES).is_dir():
        shutil.copytree(home / CHAT_TEMPLATES, target / CHAT_TEMPLATES, dirs_exist_ok=True)
    if new_ids is not None:
        renumber_file(target / GENERATION, new_ids)


def renumber_file(path: Path, new_ids: Mapping[int, int]) -> None:
    """Rename the ids that a config of a model names (`eos_token_id` and the like), if there is one."""
    if path.is_file():
        body = json.loads(path.read_text(encoding="utf-8"))
        text = json.dumps(renumber(body, new_ids), indent=2, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def renumber(body: Json, new_ids: Mapping[int, int]) -> Json:
    """`{"eos_token_id": [7, 9]}` with its ids renamed; one that is gone becomes None, or leaves its list."""

    def rename(value: Any) -> Any:
        if isinstance(value, list):
            return [new_ids[token] for token in value if token in new_ids]
        return new_ids.get(value) if isinstance(value, int) else value

    return {
        key: rename(value)
        if key.endswith(("_token_id", "_token_ids"))
        else renumber(value, new_ids)
        if isinstance(value, dict)
        else value
        for key, value in body.items()
    }
