"""Map an old vocabulary to a new one: written by `extend` and `trim`, read by `graft`."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.base.durable import publish_bytes, readable_json, stage_directory
from tokenmill.errors import ConfigError, InputError, InputNotFoundError
from tokenmill.tokenizer.files.kinds import save
from tokenmill.tokenizer.files.names import (
    CHAT_TEMPLATES,
    CONFIGS,
    MODEL,
    TEKKEN,
    TOKENIZER,
    VOCAB,
    VOCABULARIES,
)
from tokenmill.tokenizer.recipe import Json, Recipe
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.words import check_base

EXTENSION = "extension.json"
TRIM = "trim.json"
CONFIG = "config.json"
GENERATION = "generation_config.json"
# Other files of a tokenizer: settings, templates, code, licenses. Not weights, corpora or
# the model's config.json, whose vocab_size would be wrong.
_SETTINGS = ("*.json", "*.jinja", "*.py", "*.md", "LICENSE*", "NOTICE*")
_NOT_SETTINGS = (*VOCABULARIES, CONFIG, "*.index.json", EXTENSION, TRIM)
logger = logging.getLogger("tokenmill.vocabulary")


@dataclass(frozen=True)
class VocabularyMap:
    """The old ids of the tokens of a new vocabulary: `old[new]` are those that a token replaces.

    `base` is the fingerprint of the old tokenizer, `vocabulary` the hash of its tokens. `base_size` and
    `size` are the embedding rows that the two need. `home` is the directory of the new tokenizer, `extends`
    is True if the ids of the base did not change.
    """

    base: str
    vocabulary: str
    base_size: int
    size: int
    old: Mapping[int, tuple[int, ...]]
    home: Path
    extends: bool


def hash_vocabulary(recipe: Recipe) -> str:
    """Return a hash of the bytes of each id, equal for a `.tiktoken` file and its `tokenizer.json`."""
    digest = hashlib.blake2b(digest_size=16)
    if recipe.model is not None:
        digest.update(recipe.model.tokens.digest_bytes())
    for token in sorted(recipe.added, key=lambda token: token.id):
        digest.update(f"{token.id} {token.content}\n".encode())
    return digest.hexdigest()


def load_map(path: str | Path) -> VocabularyMap:
    """Load a map from its file, or from the directory that `extend` or `trim` wrote."""
    path = Path(path)
    if path.is_dir():
        path = next((path / name for name in (EXTENSION, TRIM) if (path / name).is_file()), path / EXTENSION)
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        base_size, extends = int(body["base"]["vocab_size"]), body["kind"] == "extension"
        if extends:
            old = {id_: (id_,) for id_ in range(base_size)}
            old |= {int(token["id"]): tuple(token["parts"]) for token in body["tokens"]}
        else:
            old = {new: (int(id_),) for new, id_ in enumerate(body["old_ids"])}
        return VocabularyMap(
            body["base"]["fingerprint"],
            body["base"]["vocabulary"],
            base_size,
            int(body["result"]["embedding_rows"]),
            old,
            path.parent,
            extends,
        )
    except FileNotFoundError as error:
        raise InputNotFoundError(
            f"no {EXTENSION} or {TRIM} at {path}; give the output of `tokenizer extend` or `tokenizer trim`"
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a complete vocabulary map ({error!r}); create it again") from error


def copy_settings(home: Path, target: Path, *, config_too: bool = True) -> None:
    """Copy the other files of a tokenizer. Configs that list tokens are copied only with `config_too`."""
    for path in sorted(home.iterdir()):
        wanted = any(path.match(pattern) for pattern in _SETTINGS)
        skipped = any(path.match(pattern) for pattern in _NOT_SETTINGS)
        if path.is_file() and wanted and not skipped and (config_too or path.name not in CONFIGS):
            shutil.copyfile(path, target / path.name)
    if (home / CHAT_TEMPLATES).is_dir():
        shutil.copytree(home / CHAT_TEMPLATES, target / CHAT_TEMPLATES, dirs_exist_ok=True)


def read_config(path: Path) -> Json:
    """Return the JSON object in a config of a model. Raise `InputError` if there is none."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON ({error}); copy it again") from error
    if not isinstance(body, dict):
        raise InputError(f"{path} is a {type(body).__name__}; expected a JSON object")
    return body


def renumber_file(path: Path, new_ids: Mapping[int, int]) -> None:
    """Renumber the ids in the config of a model (`eos_token_id` and similar), if there is one."""
    if path.is_file():
        body = read_config(path)
        text = json.dumps(_renumber(body, new_ids), indent=2, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def _renumber(body: Json, new_ids: Mapping[int, int]) -> Json:
    """Renumber the ids in `{"eos_token_id": [7, 9]}`; a removed one becomes None or leaves its list."""

    def rename(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return _renumber(value, new_ids)
        if not key.endswith(("_token_id", "_token_ids")):
            return value
        if isinstance(value, list):
            return [new_ids[token] for token in value if token in new_ids]
        return new_ids.get(value)

    return {key: rename(key, value) for key, value in body.items()}


def check_output(output: str | Path | None) -> None:
    """Raise `ConfigError` for a directory that is not empty, before anything is read."""
    if output is None or not Path(output).exists():
        return
    if not Path(output).is_dir() or any(Path(output).iterdir()):
        raise ConfigError(f"{output} is not an empty directory; give another `output`, or remove it first")


def load_base(base: str | Path | Tokenizer, output: str | Path | None, multiple: int) -> Tokenizer:
    """Return the tokenizer to change; raise an error if it, the output or the multiple of rows is invalid."""
    tokenizer = base if isinstance(base, Tokenizer) else Tokenizer.load(base)
    check_base(tokenizer)
    check_output(output)
    if multiple < 1:
        raise ConfigError(f"pad_to_multiple is {multiple}; expected 1 or more, such as 64")
    return tokenizer


def write_vocabulary(
    base: Tokenizer,
    result: Tokenizer,
    output: Path,
    multiple: int,
    body: dict[str, Any],
    new_ids: Mapping[int, int] | None = None,
) -> Tokenizer:
    """Write all files of the new tokenizer and the map, or none; return it as loaded from these files.

    The other files of `base` are copied too. `new_ids` are its ids in `result`, if they change. The map
    needs `multiple` rows of the embedding, or a multiple of it.
    """
    with stage_directory(output) as staging:
        save(result.recipe, staging, "hf")
        source = Path(base.source)
        if source.name in {TOKENIZER, VOCAB, TEKKEN, MODEL} and source.is_file():
            same = new_ids is None and result.recipe.config == base.recipe.config
            copy_settings(source.parent, staging, config_too=same)
            if new_ids is not None:
                renumber_file(staging / GENERATION, new_ids)
        # Loaded again, because the fingerprint covers the spelling of each step in the file.
        about = _identify(Tokenizer.load(staging)) | {"source": result.source}
        about["embedding_rows"] = -(-result.vocab_size // multiple) * multiple
        kind, name = ("extension", EXTENSION) if new_ids is None else ("trim", TRIM)
        head = {"version": 1, "kind": kind, "base": _identify(base), "result": about}
        publish_bytes(staging / name, readable_json(head | body, indent=None))
    logger.info("Wrote %s", output)
    return Tokenizer.load(output)


def _identify(tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "source": tokenizer.source,
        "fingerprint": tokenizer.fingerprint,
        "vocabulary": hash_vocabulary(tokenizer.recipe),
        "vocab_size": tokenizer.vocab_size,
    }
