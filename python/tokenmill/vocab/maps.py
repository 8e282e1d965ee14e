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

from tokenmill.base.durable import publish_bytes, stage_directory
from tokenmill.errors import ConfigError, InputError, InputNotFoundError
from tokenmill.sources.raw import RawFile
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
from tokenmill.training.counting import Corpus
from tokenmill.vocab.words import check_base

EXTENSION = "extension.json"
TRIM = "trim.json"
VERSION = 1


@dataclass(frozen=True)
class VocabularyMap:
    """The old ids of new ones: `same` keeps a row, `parts` combines several.

    `base` and `result` are the fingerprints of the two tokenizers, `base_size` and `size` how many rows
    their embeddings need. `weights` are the counts of old ids in the corpus, if known;
    `vocabulary` is the hash of the tokens of the base, `home` the directory of the new tokenizer.
    """

    kind: str
    base: str
    result: str
    base_size: int
    size: int
    same: Mapping[int, int]
    parts: Mapping[int, tuple[int, ...]]
    weights: Mapping[int, int]
    vocabulary: str | None = None
    home: Path | None = None

    def find_old(self, new: int) -> tuple[int, ...]:
        """Return the old ids that a new one replaces, empty for an unused id."""
        if new in self.parts:
            return self.parts[new]
        if self.kind == "extension":
            return (new,) if new < self.base_size else ()
        return (self.same[new],) if new in self.same else ()


def hash_vocabulary(recipe: Recipe) -> str:
    """Return a hash of the bytes of each id, equal for a `.tiktoken` file and its `tokenizer.json`."""
    digest = hashlib.blake2b(digest_size=16)
    if recipe.model is not None:
        digest.update(recipe.model.tokens.digest_bytes())
    for token in sorted(recipe.added, key=lambda token: token.id):
        digest.update(f"{token.id} {token.content}\n".encode())
    return digest.hexdigest()


def write_map(path: Path, body: dict[str, Any]) -> None:
    """Write the map as JSON, a line for each new token; the file is complete or absent.

    `json.dumps` with an indent would write one line per number and take ten times as long.
    """
    lines = [
        f"{json.dumps(key)}: {_format_rows(value)}" for key, value in {"version": VERSION, **body}.items()
    ]
    publish_bytes(path, ("{\n " + ",\n ".join(lines) + "\n}\n").encode("utf-8", "backslashreplace"))


def _format_rows(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in value)
        return f"[\n  {rows}\n ]"
    return json.dumps(value, ensure_ascii=False)


def load_map(path: str | Path) -> VocabularyMap:
    """Load a map from its file, or from the directory that `extend` or `trim` wrote."""
    path = Path(path)
    if path.is_dir():
        path = next((path / name for name in (EXTENSION, TRIM) if (path / name).is_file()), path / EXTENSION)
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputNotFoundError(
            f"no {EXTENSION} or {TRIM} at {path}; give the output of `tokenizer extend` or `trim`"
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is not a vocabulary map: {error}") from error
    try:
        return _from_json(body, path.parent)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a complete vocabulary map ({error!r}); create it again") from error


def _from_json(body: dict[str, Any], home: Path) -> VocabularyMap:
    if body["version"] != VERSION:
        raise ValueError(f"version {body['version']}; this tokenmill reads {VERSION}")
    extends = body["kind"] == "extension"
    return VocabularyMap(
        kind=body["kind"],
        base=body["base"]["fingerprint"],
        result=body["result"]["fingerprint"],
        base_size=int(body["base"]["vocab_size"]),
        size=int(body["result"]["embedding_rows"]),
        same={} if extends else {new: int(old) for new, old in enumerate(body["old_ids"])},
        parts={int(t["id"]): tuple(t["parts"]) for t in body["tokens"]} if extends else {},
        weights={int(key): int(value) for key, value in body.get("old_counts", {}).items()},
        vocabulary=body["base"].get("vocabulary"),
        home=home,
    )


CONFIG = "config.json"
GENERATION = "generation_config.json"
# Weights in other formats, which would still have the old vocabulary.
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
# Other files of a tokenizer: settings, templates, code, licenses. Not weights, corpora or
# the model's config.json, whose vocab_size would be wrong.
_SETTINGS = ("*.json", "*.jinja", "*.py", "*.md", "LICENSE*", "NOTICE*")
_NOT_SETTINGS = (*VOCABULARIES, *CONFIGS, CONFIG, "*.index.json", EXTENSION, TRIM)
_MOST_BYTES = 16 << 20


def is_vocabulary(path: Path) -> bool:
    """Return True if a file holds a vocabulary; a stale one must not be copied."""
    return any(path.match(pattern) for pattern in VOCABULARIES)


def is_weights(path: Path) -> bool:
    """Return True if a file holds the weights of a model."""
    return any(path.match(pattern) for pattern in _WEIGHTS)


def find_home(source: str) -> Path | None:
    """Return the directory of a tokenizer, or None for a single file."""
    path = Path(source)
    whole = path.name in {TOKENIZER, VOCAB, TEKKEN, MODEL}
    return path.parent if whole and path.is_file() else None


def copy_settings(
    home: Path, target: Path, new_ids: Mapping[int, int] | None = None, *, config_too: bool = True
) -> None:
    """Copy the other files of a tokenizer from `home`, renumbering ids by `new_ids`.

    Configs that list tokens are copied only with `config_too`.
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
    """Renumber the ids in the config of a model (`eos_token_id` and similar), if there is one."""
    if path.is_file():
        body = json.loads(path.read_text(encoding="utf-8"))
        text = json.dumps(renumber(body, new_ids), indent=2, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def renumber(body: Json, new_ids: Mapping[int, int]) -> Json:
    """Renumber the ids in `{"eos_token_id": [7, 9]}`; a removed one becomes None or leaves its list."""

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


logger = logging.getLogger("tokenmill.vocabulary")


def check_output(output: str | Path | None) -> None:
    """Raise `ConfigError` for a directory that is not empty, before anything is read."""
    if output is None or not Path(output).exists():
        return
    if not Path(output).is_dir() or any(Path(output).iterdir()):
        raise ConfigError(f"{output} is not an empty directory; give another --output, or remove it first")


def load_base(base: str | Path | Tokenizer, output: str | Path | None, multiple: int) -> Tokenizer:
    """Return the tokenizer to change; raise an error if it, the output or the multiple of rows is invalid."""
    tokenizer = base if isinstance(base, Tokenizer) else Tokenizer.load(base)
    check_base(tokenizer)
    check_output(output)
    if multiple < 1:
        raise ConfigError(f"pad_to_multiple is {multiple}; expected 1 or more, such as 64")
    return tokenizer


def identify(tokenizer: Tokenizer, multiple: int | None = None) -> dict[str, Any]:
    """Return the description of a tokenizer; embedding rows are rounded up to `multiple`."""
    about: dict[str, Any] = {
        "source": tokenizer.source,
        "fingerprint": tokenizer.fingerprint,
        "vocabulary": hash_vocabulary(tokenizer.recipe),
        "vocab_size": tokenizer.vocab_size,
    }
    if multiple is not None:
        about["embedding_rows"] = -(-tokenizer.vocab_size // multiple) * multiple
    return about


def write_vocabulary(
    base: Tokenizer,
    result: Tokenizer,
    output: Path,
    name: str,
    body: dict[str, Any],
    new_ids: Mapping[int, int] | None = None,
) -> Tokenizer:
    """Write all files of the new tokenizer, or none; return it as loaded from these files.

    The other files of `base` are copied too. `new_ids` are its ids in `result`, if they change.
    """
    with stage_directory(output) as staging:
        save(result.recipe, staging, "hf")
        home = find_home(base.source)
        if home is not None:
            same = new_ids is None and result.recipe.config == base.recipe.config
            copy_settings(home, staging, new_ids, config_too=same)
        # The fingerprint covers the spelling of each step in the file.
        body["result"]["fingerprint"] = type(result).load(staging).fingerprint
        write_map(staging / name, body)
    logger.info("Wrote %s", output)
    return type(result).load(output)


def certify(corpus: Corpus, documents: int, changed: int, allowed: int) -> dict[str, Any]:
    """Return the certificate of the documents that were encoded again, with the hashes of their files.

    Data in memory has only a name.
    """
    found = corpus.identify() if corpus.in_memory else []
    for file in () if corpus.in_memory else corpus.files:
        with RawFile(file) as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
        found.append({"path": file.url, "bytes": file.size, "sha256": digest})
    return {"files": found, "documents": documents, "changed": changed, "allowed": allowed}
