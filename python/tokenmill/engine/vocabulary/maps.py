"""The map from an old vocabulary to a new one, which `extend` and `trim` write and `graft` reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import publish_json
from tokenmill.base.errors import InputError, InputNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

EXTENSION = "extension.json"
TRIM = "trim.json"
VERSION = 1


@dataclass(frozen=True)
class VocabularyMap:
    """New ids as old ones: `same` keeps a row, `parts` is made of several.

    `base` and `result` are the fingerprints of the two tokenizers, `base_size` and `size` how many rows
    their embeddings need. `weights` are how often old ids occur in the corpus, where that is known.
    """

    kind: str
    base: str
    result: str
    base_size: int
    size: int
    same: Mapping[int, int]
    parts: Mapping[int, tuple[int, ...]]
    weights: Mapping[int, int]

    def old_of(self, new: int) -> tuple[int, ...]:
        """The old ids that a new one stands for; none for an id that nothing has."""
        if new in self.parts:
            return self.parts[new]
        if self.kind == "extension":
            return (new,) if new < self.base_size else ()
        return (self.same[new],) if new in self.same else ()


def write_map(path: Path, body: dict[str, Any]) -> None:
    """Write the map as JSON; it is whole or absent."""
    publish_json(path, {"version": VERSION, **body})


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
        return _from_json(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a whole vocabulary map ({error!r}); make it again") from error


def _from_json(body: dict[str, Any]) -> VocabularyMap:
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
    )
