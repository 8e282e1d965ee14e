"""The map from an old vocabulary to a new one, which `extend` and `trim` write and `graft` reads."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import publish_bytes
from tokenmill.errors import InputError, InputNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.tokenizer.recipe import Recipe

EXTENSION = "extension.json"
TRIM = "trim.json"
VERSION = 1


@dataclass(frozen=True)
class VocabularyMap:
    """New ids as old ones: `same` keeps a row, `parts` is made of several.

    `base` and `result` are the fingerprints of the two tokenizers, `base_size` and `size` how many rows
    their embeddings need. `weights` are how often old ids occur in the corpus, where that is known;
    `vocabulary` is the hash of what the ids of the base spell, `home` where the new tokenizer lies.
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
        """The old ids that a new one stands for; none for an id that no token has."""
        if new in self.parts:
            return self.parts[new]
        if self.kind == "extension":
            return (new,) if new < self.base_size else ()
        return (self.same[new],) if new in self.same else ()


def hash_vocabulary(recipe: Recipe) -> str:
    """A hash of what each id spells: the same for a `.tiktoken` file and the `tokenizer.json` made of it."""
    digest = hashlib.blake2b(digest_size=16)
    if recipe.model is not None:
        digest.update(recipe.model.tokens.digest_bytes())
    for token in sorted(recipe.added, key=lambda token: token.id):
        digest.update(f"{token.id} {token.content}\n".encode())
    return digest.hexdigest()


def write_map(path: Path, body: dict[str, Any]) -> None:
    """Write the map as JSON, a line for each new token; the file is complete or absent.

    An indent would make a line of every number, and Python's own encoder takes ten times as long for it.
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
    """A map by its file, or by the directory that `extend` or `trim` wrote."""
    path = Path(path)
    if path.is_dir():
        path = next((path / name for name in (EXTENSION, TRIM) if (path / name).is_file()), path / EXTENSION)
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputNotFoundError(
            f"no {EXTENSION} or {TRIM} at {path}; give what `tokenmill tokenizer extend` or `trim` wrote"
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is not a vocabulary map: {error}") from error
    try:
        return _from_json(body, path.parent)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a complete vocabulary map ({error!r}); make it again") from error


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
