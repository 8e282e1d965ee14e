"""Read and write records: JSON objects with a checksum at the end, validated by pydantic.

A disk or a copy may change any byte of a manifest, a plan or a receipt. The checksum covers all of a record.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from tokenmill.errors import DatasetError

T = TypeVar("T")
Count = Annotated[int, Field(strict=True, ge=0, lt=1 << 63)]
CHECKSUM = "checksum"
_SHOWN = 60
# The placeholder that is hashed in place of the checksum, and the bytes after the checksum.
_BLANK = "0" * 64
_END = b'"\n}\n'
_encode_line = json.JSONEncoder(ensure_ascii=False).encode
# Dataclasses as objects, tuples as lists.
to_plain = to_jsonable_python


class Record:
    """Base class of record dataclasses. Unknown keys are rejected, also in nested dataclasses."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(extra="forbid")


@cache
def _get_adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def validate(kind: type[T], value: Any, where: str) -> T:
    """Return the dataclass in a JSON value; raise `DatasetError` with the key and the expected value."""
    try:
        record: T = _get_adapter(kind).validate_python(value)  # type: ignore[arg-type]
    except ValidationError as error:
        raise DatasetError(f"{where} is damaged: {explain(error)}") from None
    return record


def explain(error: ValidationError) -> str:
    """Return the key, the value and the expected value of the first error."""
    first = error.errors(include_url=False)[0]
    path = (
        "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"]).lstrip(".") or "it"
    )
    if first["type"] == "missing":
        return f"{path} is missing"
    if first["type"] == "unexpected_keyword_argument":
        return f"{path} is an unknown key"
    message = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    found = json.dumps(first["input"])
    short = found if len(found) <= _SHOWN else found[: _SHOWN - 1] + "…"
    return f"{path} is {short}, expected {message}"


def encode_record(value: dict[str, Any]) -> bytes:
    """Return the bytes of a record's file: readable JSON, keys in order, the checksum of all of it last.

    A nested object or list of scalars is one line, which the compiled encoder writes.
    """
    return _seal((_spell(value | {CHECKSUM: _BLANK}, 0) + "\n").encode("utf-8", "backslashreplace"))


def _spell(value: Any, depth: int) -> str:
    members = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple) or (
        depth and not any(isinstance(each, dict | list | tuple) for each in members)
    ):
        return _encode_line(value)
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        lines = [f"{pad}{_encode_line(key)}: {_spell(each, depth + 1)}" for key, each in value.items()]
    else:
        lines = [pad + _spell(each, depth + 1) for each in value]
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return opened + "\n" + ",\n".join(lines) + "\n" + pad[1:] + closed


def _seal(data: bytes) -> bytes:
    """Return the record with its checksum recomputed."""
    start = data[: -len(_BLANK) - len(_END)]
    return start + hashlib.sha256(start + _BLANK.encode() + _END).hexdigest().encode() + _END


def parse_record(data: bytes, where: str) -> dict[str, Any]:
    """Return the JSON object in a file; raise `DatasetError` for anything else."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where} is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise DatasetError(f"{where} is not a JSON object")
    return value


def open_record(
    data: bytes, where: str, version_key: str, version: int, kind: str | None = None
) -> dict[str, Any]:
    """Check version, kind and checksum of a record, and return its other keys."""
    value = parse_record(data, where)
    if kind is not None and (found := value.pop("kind", None)) != kind:
        raise DatasetError(f"{where} is another kind of file: kind is {found!r}, expected {kind!r}")
    found = value.pop(version_key, None)
    if type(found) is not int or found < 1:
        raise DatasetError(f"{where} is damaged: {version_key} is {found!r}, expected {version}")
    if found != version:
        raise DatasetError(
            f"{where} has {version_key} {found}, this tokenmill reads {version}: it is damaged, or of "
            "another version (pip install --upgrade tokenmill)"
        )
    if value.pop(CHECKSUM, None) is None:
        raise DatasetError(f"{where} is damaged: it has no checksum")
    if data != _seal(data):
        raise DatasetError(f"{where} is damaged: its content does not match its checksum")
    return value
