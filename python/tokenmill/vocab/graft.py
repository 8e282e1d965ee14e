"""Write the embeddings of a model for another vocabulary: old rows bit for bit, new ones from old ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.durable import stage_directory
from tokenmill.errors import ConfigError, InputError, TokenizerError
from tokenmill.tokenizer.files.names import TOKENIZER
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.vocab.maps import (
    CONFIG,
    GENERATION,
    VocabularyMap,
    check_output,
    copy_settings,
    hash_vocabulary,
    is_vocabulary,
    is_weights,
    renumber_file,
)
from tokenmill.vocab.tensors import INDEX, Tensor, TensorFile, find_files, write_tensors
from tokenmill.vocab.untrained import BLOCK_ROWS, EMBEDDINGS, measure_rows

Init = Literal["mean", "subword-mean", "weighted", "omp"]
# OMP takes this many old tokens for a new one, as published uses of it do.
SPARSE = 8


def graft_model(
    model: Path,
    change: VocabularyMap,
    output: Path,
    *,
    init: Init = "subword-mean",
    embeddings: Sequence[str] = (),
    donor: Path | None = None,
) -> dict[str, Any]:
    """Write `model` with rows for the new vocabulary into `output`, and return a summary.

    The rest of the directory is copied, with the tokenizer of the map in place of the
    old one. `donor` is a model with the new vocabulary, for `omp`.
    """
    if (init == "omp") != (donor is not None):
        raise ConfigError("omp, and only omp, needs --donor DIR: a model with the new vocabulary")
    check_output(output)
    files, index = find_files(model)
    opened = [TensorFile(path) for path in files]
    wanted = tuple(embeddings) or EMBEDDINGS
    found = {name: tensor for file in opened for name, tensor in file.tensors.items() if name in wanted}
    _check(model, change, found, embeddings)
    own = check_tokenizer(model, change)
    left_out = {name: measure_rows(tensor, own, change.base_size)[1] for name, tensor in found.items()}
    before = {name: tensor.shape[0] for name, tensor in found.items()}
    # An extension keeps the padding rows of the model.
    rows = {name: max(change.size, n if change.kind == "extension" else 0) for name, n in before.items()}
    with stage_directory(output) as staging:
        total = 0
        for file in opened:
            target = staging / file.path.name
            mine = [name for name in found if name in file.tensors]
            if not mine:
                shutil.copyfile(file.path, target)
                total += file.size
                continue
            # Infinities of the model may spread to new rows without a warning.
            with np.errstate(invalid="ignore", over="ignore"):
                made = {}
                for name in mine:
                    make = _choose_maker(found[name], change, init, donor, left_out[name])
                    made[name] = rows[name], _make_rows(found[name], change, rows[name], make)
                total += write_tensors(target, file, made)
        renewed = copy_rest(model, staging, {path.name for path in files} | {INDEX}, change)
        update_configs(staging, max(rows.values()), index, total, change)
    return {
        "tensors": before,
        "rows": max(rows.values()),
        "init": init,
        "new": len(change.parts),
        "untrained": {name: sum(id_ < change.base_size for id_ in ids) for name, ids in left_out.items()},
        "tokenizer": renewed,
        "output": str(output),
    }


def _check(model: Path, change: VocabularyMap, found: dict[str, Tensor], named: Sequence[str]) -> None:
    missing = [name for name in named if name not in found]
    if missing or not found:
        raise InputError(
            f"{model} has no tensor {missing[0] if missing else 'with a name that embeddings usually have'}; "
            "name its embedding, and its output layer if that is another tensor, with --embedding NAME"
        )
    for name, tensor in found.items():
        if len(tensor.shape) != 2:
            raise InputError(
                f"{name} of {model} has the shape {list(tensor.shape)}; expected rows of vectors"
            )
        if tensor.shape[0] < change.base_size:
            raise InputError(
                f"{name} of {model} has {tensor.shape[0]:,} rows, but the base vocabulary of the map needs "
                f"{change.base_size:,}: this model has another tokenizer"
            )
    config = model / CONFIG
    said = json.loads(config.read_text(encoding="utf-8")).get("vocab_size") if config.is_file() else None
    rows = next(iter(found.values())).shape[0]
    if said is not None and said != rows:
        raise InputError(
            f"{config} has vocab_size {said:,}, but the embedding has {rows:,} rows; correct one of them"
        )


def _make_rows(
    tensor: Tensor, change: VocabularyMap, rows: int, make: Callable[[int], NDArray[np.float32]]
) -> Iterator[bytes]:
    """Yield the bytes of the new table in blocks; ranges of kept rows are copied."""
    sources = [_find_source(change, new, tensor.shape[0]) for new in range(rows)]
    at = 0
    while at < rows:
        first, end = sources[at], at + 1
        if first is None:
            yield tensor.pack_row(make(at))
        else:
            while end < rows and end - at < BLOCK_ROWS and sources[end] == first + end - at:
                end += 1
            yield tensor.read_raw(first, end - at)
        at = end


def _find_source(change: VocabularyMap, new: int, had: int) -> int | None:
    """Return the old row of a new one, or None if it must be computed."""
    old = change.find_old(new)
    if len(old) == 1 and new not in change.parts:
        return old[0]
    # Keep the padding rows of the model.
    return new if not old and new < had and change.kind == "extension" else None


def _choose_maker(
    tensor: Tensor, change: VocabularyMap, init: Init, donor: Path | None, left_out: frozenset[int]
) -> Callable[[int], NDArray[np.float32]]:
    """Return the function that makes a new row; rows in `left_out` are untrained and enter no average."""
    if donor is not None:
        return _match_donor(tensor, change, donor)
    mean = _average_rows(tensor, change.base_size, left_out)

    def combine(new: int) -> NDArray[np.float32]:
        old = [part for part in change.find_old(new) if part not in left_out]
        if init == "mean" or not old:
            return mean
        rows = np.concatenate([tensor.read_rows(part, 1) for part in old])
        weights = None
        if init == "weighted":
            weights = np.array([change.weights.get(part, 0) for part in old], np.float64)
            weights = weights if weights.sum() else None
        return np.asarray(np.average(rows, axis=0, weights=weights), np.float32)

    return combine


def _average_rows(tensor: Tensor, rows: int, left_out: frozenset[int]) -> NDArray[np.float32]:
    total = np.zeros(tensor.shape[1], np.float64)
    kept = np.array([id_ not in left_out for id_ in range(rows)])
    kept = kept if kept.any() else np.ones(rows, bool)
    for first in range(0, rows, BLOCK_ROWS):
        block = tensor.read_rows(first, min(BLOCK_ROWS, rows - first))
        total += block[kept[first : first + BLOCK_ROWS]].sum(axis=0, dtype=np.float64)
    return np.asarray(total / kept.sum(), np.float32)


def _match_donor(ours: Tensor, change: VocabularyMap, donor: Path) -> Callable[[int], NDArray[np.float32]]:
    """Return a function that makes a row by orthogonal matching pursuit.

    It describes a new token by a few shared ones in the donor's space, and combines our rows of these.
    """
    files = [TensorFile(path) for path in find_files(donor)[0]]
    names = (ours.name, *EMBEDDINGS)
    theirs = next((file.tensors[name] for file in files for name in names if name in file.tensors), None)
    if theirs is None:
        raise InputError(f"{donor} has no tensor {ours.name}; --donor must have the same architecture")
    if theirs.shape[0] < change.size:
        raise InputError(
            f"{donor} has {theirs.shape[0]:,} rows and the new vocabulary {change.size:,}: "
            "give a model with the new tokenizer"
        )
    # The tokens that both vocabularies have.
    shared = {new: old[0] for new in range(change.size) if len(old := change.find_old(new)) == 1}
    old_ids = list(shared.values())
    rows = np.concatenate([theirs.read_rows(new, 1) for new in shared])
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    def make(new: int) -> NDArray[np.float32]:
        wanted = theirs.read_rows(new, 1)[0]
        chosen: list[int] = []
        rest, weights = wanted, np.empty(0, np.float32)
        for _ in range(min(SPARSE, len(shared))):
            score = np.abs(unit @ rest)
            score[chosen] = -1.0
            chosen.append(int(score.argmax()))
            weights = np.linalg.lstsq(rows[chosen].T, wanted, rcond=None)[0].astype(np.float32)
            rest = wanted - weights @ rows[chosen]
        combined = weights @ np.concatenate([ours.read_rows(old_ids[place], 1) for place in chosen])
        return np.asarray(combined, np.float32)

    return make


def check_tokenizer(model: Path, change: VocabularyMap) -> Tokenizer | None:
    """Return the tokenizer of a model, if it has one; raise `InputError` if it is not the base of the map."""
    if not any(is_vocabulary(path) for path in model.iterdir()):
        return None
    try:
        own = Tokenizer.load(model)
    except TokenizerError:
        return None
    if own.fingerprint == change.base or hash_vocabulary(own.recipe) == change.vocabulary:
        return own
    raise InputError(
        f"{model} has a different tokenizer from the base of the map: its fingerprint is "
        f"{own.fingerprint[:16]} ({own.vocab_size:,} ids), the map has {change.base[:16]} "
        f"({change.base_size:,} ids); extend or trim the tokenizer of this model"
    )


def copy_rest(model: Path, staging: Path, done: set[str], change: VocabularyMap) -> bool:
    """Copy the rest of the model with the new tokenizer. Return True if there is one."""
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
    """Return the names that `copytree` skips: weights and vocabularies."""
    paths = [Path(folder) / name for name in names]
    return [path.name for path in paths if is_weights(path) or is_vocabulary(path)]


def update_configs(
    staging: Path, rows: int, index: dict[str, Any] | None, total: int, change: VocabularyMap
) -> None:
    """Update `config.json` and the index to match the tensors."""
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
