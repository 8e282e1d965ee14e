"""Read and write safetensors files row by row, and find the embedding rows that training never changed.

The safetensors library has no bfloat16 for NumPy, and writes only tensors that are in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenmill.base.durable import publish_bytes
from tokenmill.errors import InputError, InputNotFoundError
from tokenmill.tokenizer.tokenizer import Tokenizer

INDEX = "model.safetensors.index.json"
# Names of the table from ids to vectors, and of the table from vectors to ids.
EMBEDDINGS = (
    "model.embed_tokens.weight",
    "model.language_model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight",
    "transformer.wte.weight",
    "wte.weight",
    "gpt_neox.embed_in.weight",
    "model.decoder.embed_tokens.weight",
    "embed_tokens.weight",
    "lm_head.weight",
    "embed_out.weight",
    "output.weight",
)
# Names of tokens that are reserved for later use.
RESERVED = re.compile(r"reserved|unused|extra_id|extra_\d|placeholder|dummy", re.IGNORECASE)
BLOCK_ROWS = 2048
# A row counts as untrained within this multiple of the distance that known ones have from their centre...
NEAR = 1.25
# ...and only if a typical row is at least this much farther away: otherwise the two cannot be distinguished.
APART = 2.0
_FLOATS: dict[str, Any] = {"F16": np.float16, "F32": np.float32, "F64": np.float64}


class Tensor(NamedTuple):
    """One tensor of a memory-mapped file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]

    def read_raw(self, first: int, count: int) -> bytes:
        """Return the bytes of rows."""
        width = len(self.data) // self.shape[0]
        return self.data[first * width : (first + count) * width].tobytes()

    def read_rows(self, first: int, count: int) -> NDArray[np.float32]:
        """Return rows as float32. Raise `InputError` if they are not F64, F32, F16 or BF16."""
        raw = self.read_raw(first, count)
        if self.dtype == "BF16":
            rows = (np.frombuffer(raw, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        elif self.dtype in _FLOATS:
            rows = np.frombuffer(raw, _FLOATS[self.dtype]).astype(np.float32)
        else:
            raise InputError(
                f"an embedding of type {self.dtype}; expected F64, F32, F16 or BF16: convert the model first"
            )
        return rows.reshape(-1, self.shape[1])

    def pack_row(self, row: NDArray[np.float64]) -> bytes:
        """Return the bytes of a row; bfloat16 is rounded half to even, as in torch."""
        if self.dtype == "BF16":
            bits = np.ascontiguousarray(row, np.float32).view(np.uint32)
            return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
        return row.astype(_FLOATS[self.dtype]).tobytes()


class TensorFile:
    """A memory-mapped safetensors file; its tensors are in the order of their data."""

    def __init__(self, path: Path) -> None:
        """Read the header of `path`. Raise `InputError` if it is not a complete safetensors file."""
        try:
            whole = np.asarray(np.memmap(path, np.uint8, "r"))
            start = 8 + int.from_bytes(whole[:8].tobytes(), "little")
            header: dict[str, Any] = json.loads(whole[8:start].tobytes())
            self.path, self.metadata = path, header.pop("__metadata__", {})
            self.size, data = len(whole) - start, whole[start:]
            ranges = {name: slice(*entry["data_offsets"]) for name, entry in header.items()}
            self.tensors = {
                name: Tensor(name, header[name]["dtype"], tuple(header[name]["shape"]), data[ranges[name]])
                for name in sorted(header, key=lambda name: ranges[name].start)
            }
            needed = start + max((each.stop for each in ranges.values()), default=0)
        except FileNotFoundError as error:
            raise InputNotFoundError(f"{path}: no such file") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{path} is not a complete safetensors file ({error}); copy it again") from error
        if len(whole) != needed:
            raise InputError(
                f"{path} has {len(whole):,} bytes; its header requires {needed:,}; copy it again"
            )


def write_tensors(path: Path, source: TensorFile, rows: Mapping[str, tuple[int, Iterable[bytes]]]) -> None:
    """Copy `source` with other rows, given by number and bytes, for some tensors."""
    sizes = {}
    for name, tensor in source.tensors.items():
        shape, size = tensor.shape, len(tensor.data)
        if name in rows:
            shape, size = (rows[name][0], *shape[1:]), size // shape[0] * rows[name][0]
        sizes[name] = tensor.dtype, shape, size
    with path.open("wb") as file:
        file.write(_pack_header(sizes, source.metadata))
        for name, tensor in source.tensors.items():
            if name in rows:
                file.writelines(rows[name][1])
            else:
                file.write(tensor.data.data)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write int64 and bool arrays as a safetensors file; it is complete or absent."""
    sizes = {
        name: ("BOOL" if array.dtype == bool else "I64", array.shape, array.nbytes)
        for name, array in arrays.items()
    }
    publish_bytes(path, _pack_header(sizes, {}) + b"".join(array.tobytes() for array in arrays.values()))


def _pack_header(sizes: Mapping[str, tuple[str, tuple[int, ...], int]], metadata: dict[str, str]) -> bytes:
    """Return the header of a file with tensors of these types, shapes and numbers of bytes."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    at = 0
    for name, (dtype, shape, size) in sizes.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    data = json.dumps(header, separators=(",", ":")).encode()
    data += b" " * (-len(data) % 8)
    return len(data).to_bytes(8, "little") + data


def open_model(folder: Path) -> tuple[list[TensorFile], dict[str, Any] | None]:
    """Return the safetensors files of a model, and its index if it is sharded."""
    index, names = None, sorted(folder.glob("*.safetensors"))
    if (folder / INDEX).is_file():
        try:
            index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
            names = [folder / name for name in sorted(set(index["weight_map"].values()))]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{folder / INDEX} cannot be read ({error}); copy it again") from error
    elif len(names) != 1:
        raise InputNotFoundError(
            f"{folder} has {len(names)} safetensors files and no {INDEX}; expected one file, or an index"
        )
    return [TensorFile(path) for path in names], index


def find_embeddings(
    model: Path, files: Iterable[TensorFile], size: int, named: Iterable[str] = ()
) -> dict[str, Tensor]:
    """Return the tensors with these names, or with usual names of embeddings.

    Raise `InputError` if one is missing, or has fewer rows than the vocabulary has ids (`size`).
    """
    tensors = {name: tensor for file in files for name, tensor in file.tensors.items()}
    found = {name: tensors[name] for name in named or EMBEDDINGS if name in tensors}
    missing = [name for name in named if name not in found]
    if missing or not found:
        raise InputError(
            f"{model} has no tensor {missing[0] if missing else 'with a name that embeddings usually have'}; "
            "name its embedding, and its output layer if that is another tensor, with `embeddings`"
        )
    for name, tensor in found.items():
        if len(tensor.shape) != 2 or tensor.shape[0] < size:
            raise InputError(
                f"{name} of {model} has the shape {list(tensor.shape)}, but the vocabulary needs {size:,} "
                "rows: this model has another tokenizer"
            )
    return found


def find_untrained(model: Path, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the untrained rows of the first embedding of a model; the text of a row may be None."""
    size = tokenizer.vocab_size
    tensor = next(iter(find_embeddings(model, open_model(model)[0], size).values()))
    known, near = measure_rows(tensor, tokenizer, size)
    tokens = {id_: tokenizer.engine.token_bytes(id_) for id_ in sorted(near)}
    shown = [
        {"id": id_, "token": None if token is None else token.decode(errors="replace")}
        for id_, token in tokens.items()
    ]
    return {"tensor": tensor.name, "rows": tensor.shape[0], "reference": known, "tokens": shown}


def measure_rows(tensor: Tensor, tokenizer: Tokenizer | None, size: int) -> tuple[int, frozenset[int]]:
    """Return how many rows no text can train, and the rows near their centre; read the table in parts.

    No text trains the rows after the `size` of the vocabulary and, if the tokenizer is known, the rows of
    ids without a token and of reserved tokens.
    """
    rows, known = tensor.shape[0], list(range(size, tensor.shape[0]))
    if tokenizer is not None:
        added = {id_: text for text, id_ in tokenizer.added_tokens.items()}
        known += [
            id_
            for id_ in range(size)
            if RESERVED.search(added.get(id_, "")) or tokenizer.engine.token_bytes(id_) is None
        ]
    if not known:
        return 0, frozenset()
    centre = np.mean([tensor.read_rows(id_, 1)[0] for id_ in known], axis=0, dtype=np.float64)
    distances = np.concatenate(
        [
            np.linalg.norm(tensor.read_rows(at, BLOCK_ROWS) - centre, axis=1)
            for at in range(0, rows, BLOCK_ROWS)
        ]
    )
    limit = NEAR * float(np.quantile(distances[known], 0.95))
    others: NDArray[np.float64] = np.delete(distances, known)
    clear = not len(others) or float(np.median(others)) > APART * limit
    near = np.flatnonzero(distances <= limit).tolist() if clear else []
    return len(known), frozenset(near)
