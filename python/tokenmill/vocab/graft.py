"""Write the embeddings of a model for another vocabulary: old rows bit for bit, new ones from old ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.durable import stage_directory
from tokenmill.errors import InputError
from tokenmill.tokenizer.files.names import TOKENIZER, VOCABULARIES
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.maps import (
    CONFIG,
    GENERATION,
    VocabularyMap,
    check_output,
    copy_settings,
    hash_vocabulary,
    read_config,
    renumber_file,
)
from tokenmill.vocab.tensors import (
    BLOCK_ROWS,
    INDEX,
    Tensor,
    TensorFile,
    find_embeddings,
    measure_rows,
    open_model,
    write_tensors,
)

Combine = Callable[[int], NDArray[np.float64]]
# Files of a model that are not copied: weights in any format, which have the old vocabulary.
_WEIGHTS = (
    *("*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.gguf", "*.onnx"),
    "*.safetensors",
)
# A row from a donor combines this many old rows, as published uses of the method do.
_SPARSE = 8


def graft_model(
    model: Path,
    change: VocabularyMap,
    output: Path,
    *,
    embeddings: Sequence[str] = (),
    donor: Path | None = None,
) -> dict[str, Any]:
    """Write `model` with rows for the new vocabulary into `output`, and return a summary.

    A new row is the mean of the rows of the old ids that its token replaces. With `donor`, a model that has
    the new vocabulary, it is a sparse combination of old rows. The rest of the directory is copied, with the
    tokenizer of the map in place of the old one.
    """
    check_output(output)
    files, index = open_model(model)
    found = find_embeddings(model, files, change.base_size, embeddings)
    before = {name: tensor.shape[0] for name, tensor in found.items()}
    _check_config(model / CONFIG, next(iter(before.values())))
    own = _check_tokenizer(model, change)
    left_out = {name: measure_rows(tensor, own, change.base_size)[1] for name, tensor in found.items()}
    # An extension keeps the padding rows of the model.
    rows = max(change.size, *before.values()) if change.extends else change.size
    home = change.home if (change.home / TOKENIZER).is_file() else None
    with stage_directory(output) as staging:
        skipped = shutil.ignore_patterns(".*", *_WEIGHTS, *VOCABULARIES)
        shutil.copytree(model, staging, ignore=skipped, dirs_exist_ok=True)
        # Infinities of the model may spread to new rows without a warning.
        with np.errstate(invalid="ignore", over="ignore"):
            for file in files:
                made = {}
                for name in (name for name in file.tensors if name in found):
                    combine = _average_parts(found[name], change, left_out[name])
                    if donor is not None:
                        combine = _match_donor(found[name], change, donor)
                    made[name] = rows, _make_rows(found[name], change, rows, combine)
                write_tensors(staging / file.path.name, file, made)
        if home is not None:
            shutil.copyfile(home / TOKENIZER, staging / TOKENIZER)
            copy_settings(home, staging)
        _update_configs(staging, rows, index, change)
    return {
        "tensors": before,
        "rows": rows,
        "new": sum(len(old) > 1 for old in change.old.values()),
        "untrained": {name: sum(id_ < change.base_size for id_ in ids) for name, ids in left_out.items()},
        "tokenizer": home is not None,
        "output": str(output),
    }


def _check_config(config: Path, rows: int) -> None:
    said = read_config(config).get("vocab_size") if config.is_file() else None
    if said is not None and said != rows:
        raise InputError(
            f"{config} has vocab_size {said:,}, but the embedding has {rows:,} rows; correct one of them"
        )


def _check_tokenizer(model: Path, change: VocabularyMap) -> Tokenizer | None:
    """Return the tokenizer of a model, if it has one; raise `InputError` if it is not the base of the map."""
    if not any(path.match(pattern) for path in model.iterdir() for pattern in VOCABULARIES):
        return None
    own = Tokenizer.load(model)
    if hash_vocabulary(own.recipe) == change.vocabulary:
        return own
    raise InputError(
        f"{model} has a different tokenizer from the base of the map: its fingerprint is "
        f"{own.fingerprint[:16]} ({own.vocab_size:,} ids), the map has {change.base[:16]} "
        f"({change.base_size:,} ids); extend or trim the tokenizer of this model"
    )


def _make_rows(tensor: Tensor, change: VocabularyMap, rows: int, combine: Combine) -> Iterator[bytes]:
    """Yield the bytes of the new table."""
    for new in range(rows):
        old = change.old.get(new, ())
        if len(old) == 1 or (not old and change.extends and new < tensor.shape[0]):
            yield tensor.read_raw(old[0] if old else new, 1)
        else:
            yield tensor.pack_row(combine(new))


def _average_parts(tensor: Tensor, change: VocabularyMap, left_out: frozenset[int]) -> Combine:
    """Return a function that averages the old rows of a new one, without the untrained rows in `left_out`."""
    mean = _average_rows(tensor, change.base_size, left_out)

    def combine(new: int) -> NDArray[np.float64]:
        trained = [tensor.read_rows(part, 1)[0] for part in change.old.get(new, ()) if part not in left_out]
        return np.mean(trained, axis=0, dtype=np.float64) if trained else mean

    return combine


def _match_donor(ours: Tensor, change: VocabularyMap, donor: Path) -> Combine:
    """Return a function that makes a row by orthogonal matching pursuit.

    It describes a new token by a few shared ones in the donor's space, and combines our rows of these.
    """
    theirs = find_embeddings(donor, open_model(donor)[0], change.size, [ours.name])[ours.name]
    shared = {new: old[0] for new, old in change.old.items() if len(old) == 1}
    old_ids = list(shared.values())
    rows = np.concatenate([theirs.read_rows(new, 1) for new in shared])
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    def combine(new: int) -> NDArray[np.float64]:
        if new >= change.size:  # padding
            return np.zeros(ours.shape[1])
        wanted = theirs.read_rows(new, 1)[0]
        chosen: list[int] = []
        rest, weights = wanted, np.empty(0)
        for _ in range(min(_SPARSE, len(shared))):
            score = np.abs(unit @ rest)
            score[chosen] = -1.0
            chosen.append(int(score.argmax()))
            weights = np.linalg.lstsq(rows[chosen].T, wanted, rcond=None)[0]
            rest = wanted - weights @ rows[chosen]
        parts = np.concatenate([ours.read_rows(old_ids[place], 1) for place in chosen])
        return np.asarray(weights @ parts, np.float64)

    return combine


def _average_rows(tensor: Tensor, rows: int, left_out: frozenset[int]) -> NDArray[np.float64]:
    total = np.zeros(tensor.shape[1], np.float64)
    kept = np.array([id_ not in left_out for id_ in range(rows)])
    kept = kept if kept.any() else np.ones(rows, bool)
    for first in range(0, rows, BLOCK_ROWS):
        block = tensor.read_rows(first, min(BLOCK_ROWS, rows - first))
        total += block[kept[first : first + BLOCK_ROWS]].sum(axis=0, dtype=np.float64)
    return np.asarray(total / kept.sum(), np.float64)


def _update_configs(staging: Path, rows: int, index: dict[str, Any] | None, change: VocabularyMap) -> None:
    """Update `config.json` and the index to match the tensors."""
    config = staging / CONFIG
    if config.is_file():
        body = read_config(config)
        for part in (body, body.get("text_config")):
            if isinstance(part, dict) and "vocab_size" in part:
                part["vocab_size"] = rows
        config.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if not change.extends:
        new_ids = {old[0]: new for new, old in change.old.items()}
        for name in (CONFIG, GENERATION):
            renumber_file(staging / name, new_ids)
    if index is not None:
        total = sum(TensorFile(path).size for path in staging.glob("*.safetensors"))
        index.setdefault("metadata", {})["total_size"] = total
        (staging / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
