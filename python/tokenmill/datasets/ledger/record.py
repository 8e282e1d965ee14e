"""The JSON records of a dataset: sealed with a checksum, and read into dataclasses with every type checked.

A disk or a copy may change any byte of a manifest, a plan or a receipt. A changed record must never be read
as if it had been written that way: the checksum covers all that a record says.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache, partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from tokenmill.base.durable import digest, readable_json
from tokenmill.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Self

    Reader = Callable[[Any], Any]

CHECKSUM = "checksum"
_SHOWN = 60
# A record is hashed with these in the place of its checksum, and ends with this after them.
_BLANK = "0" * 64
_END = b'"\n}\n'
_ON_ONE_LINE = json.JSONEncoder(ensure_ascii=False).encode


class Record:
    """A dataclass that is a JSON object: its fields are the keys unless `reshape` and `to_json` differ."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """A plain object, keys as in docs/format.md."""
        return {field.name: to_plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def reshape(cls, value: Any) -> Any:
        """What JSON has, in the shape of the fields: the inverse of `to_json`."""
        return value

    @classmethod
    def from_json(cls, value: Any, where: str) -> Self:
        """The record, all of it checked; unknown keys are ignored.

        Raises `DatasetError` that names the field, what was found and what was expected.
        """
        try:
            reader: Reader = _make_reader(cls)  # type: ignore[arg-type]
            record: Self = reader(value)
        except _MismatchError as error:
            raise DatasetError(f"{where} is damaged: {error}") from None
        return record


def to_plain(value: Any) -> Any:
    """Records and other dataclasses as objects, tuples as lists."""
    if isinstance(value, Record):
        return value.to_json()
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    return [to_plain(item) for item in value] if isinstance(value, tuple) else value


def encode_record(value: dict[str, Any]) -> bytes:
    """The bytes of a record's file: readable JSON, keys in order, the checksum of all of it last."""
    return _seal(_spell(value | {CHECKSUM: _BLANK}))


def _spell(value: dict[str, Any]) -> bytes:
    """Readable JSON in which whatever holds nothing but plain values stands on one line.

    A list of 200,000 inputs is written in one pass by the compiled encoder: with an indent for each it took
    five seconds, and half of the bytes were blanks.
    """
    return (_spell_part(value, 0) + "\n").encode("utf-8", "backslashreplace")


def _spell_part(value: Any, depth: int) -> str:
    members = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple) or (
        depth and not any(isinstance(each, dict | list | tuple) for each in members)
    ):
        return _ON_ONE_LINE(value)
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        lines = [f"{pad}{_ON_ONE_LINE(key)}: {_spell_part(each, depth + 1)}" for key, each in value.items()]
    else:
        lines = [pad + _spell_part(each, depth + 1) for each in value]
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return opened + "\n" + ",\n".join(lines) + "\n" + pad[1:] + closed


def _seal(data: bytes) -> bytes:
    """The same file with the checksum that it should have."""
    start = data[: -len(_BLANK) - len(_END)]
    return start + hashlib.sha256(start + _BLANK.encode() + _END).hexdigest().encode() + _END


def parse_record(data: bytes, where: str) -> dict[str, Any]:
    """A JSON object; raises `DatasetError` for anything else."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where} is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise DatasetError(f"{where} is not a JSON object")
    return value


def check_seal(value: dict[str, Any], data: bytes, where: str, keys: Collection[str]) -> None:
    """Raise `DatasetError` unless the checksum of `value`, read from `data`, fits.

    Records from before there were checksums have only `keys`: any other is a damaged `checksum`.
    """
    if CHECKSUM not in value:
        strange = [key for key in value if key not in keys]
        if strange:
            raise DatasetError(f"{where} is damaged: it has no checksum and the unknown key {strange[0]!r}")
    elif data != _seal(data) and not _fits_when_respelled(value):
        raise DatasetError(f"{where} is damaged: its content does not match its checksum")


def _fits_when_respelled(value: dict[str, Any]) -> bool:
    """Whether a record that another program wrote anew says the same, or has the first kind of checksum.

    That was of the canonical JSON of all other keys; later, records had an indent for every value. To spell a
    large record anew takes much longer than to hash its file, so this is asked last.
    """
    found = value[CHECKSUM]
    unsealed = {key: item for key, item in value.items() if key != CHECKSUM}
    blank = unsealed | {CHECKSUM: _BLANK}
    return found == digest(unsealed) or any(
        spell(unsealed | {CHECKSUM: found}) == _seal(spell(blank)) for spell in (_spell, readable_json)
    )


def check_version(value: dict[str, Any], key: str, newest: int, where: str) -> None:
    """Raise `DatasetError` for a record of a newer version, or of none."""
    version = value.get(key)
    if type(version) is not int or version < 1:
        raise DatasetError(f"{where} is damaged: {key} is {version!r}, expected a whole number")
    if version > newest:
        raise DatasetError(
            f"{where} has {key} {version}, this tokenmill reads up to {newest}: it is damaged, or newer "
            "(pip install --upgrade tokenmill)"
        )


class _MismatchError(Exception):
    """A value is not what its field takes; `path` is where, and grows on the way out."""

    def __init__(self, found: Any, expected: str) -> None:
        self.path = ""
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        found = json.dumps(self.found)
        short = found if len(found) <= _SHOWN else found[: _SHOWN - 1] + "…"
        return f"{self.path.lstrip('.') or 'it'} is {short}, expected {self.expected}"


@lru_cache(maxsize=256)
def _make_reader(annotation: Any) -> Reader:
    """What reads a JSON value as an annotation says; made once for each."""
    origin, inner = get_origin(annotation), get_args(annotation)
    plain: dict[Any, Reader] = {int: _read_count, str: _read_text, dict: _read_object, Counter: _read_counter}
    if (found := plain.get(origin or annotation)) is not None:
        return found
    if origin is Literal:
        return partial(_read_choice, inner)
    if origin in {Union, UnionType}:
        (kind,) = [each for each in inner if each is not NoneType]
        return partial(_read_optional, _make_reader(kind))
    if origin is tuple:
        return partial(_read_items, _make_reader(inner[0]))
    return _make_fields_reader(annotation)


def _make_fields_reader(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    specs = [
        (
            each.name,
            _make_reader(hints[each.name]),
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
    ]

    def read(value: Any) -> Any:
        value = kind.reshape(value) if issubclass(kind, Record) else value
        if not isinstance(value, dict):
            raise _MismatchError(value, "an object")
        found = {}
        for name, reader, required in specs:
            if name not in value:
                if required:
                    raise _MismatchError(sorted(value), f"an object with {name!r}")
                continue
            try:
                found[name] = reader(value[name])
            except _MismatchError as error:
                error.path = f".{name}{error.path}"
                raise
        return kind(**found)

    return read


def _read_count(value: Any) -> int:
    """Every number of a record counts something: none is below 0, and `true` is not 1."""
    if type(value) is not int or value < 0:
        raise _MismatchError(value, "a whole number of at least 0")
    return value


def _read_choice(words: tuple[str, ...], value: Any) -> Any:
    if value not in words:
        raise _MismatchError(value, f"one of {', '.join(words)}")
    return value


def _read_optional(read: Reader, value: Any) -> Any:
    return None if value is None else read(value)


def _read_plain(kind: type, words: str, value: Any) -> Any:
    if not isinstance(value, kind):
        raise _MismatchError(value, words)
    return value


_read_text = partial(_read_plain, str, "text")
_read_object = partial(_read_plain, dict, "an object")


def _read_counter(value: Any) -> Counter[str]:
    return Counter({key: _read_count(count) for key, count in _read_object(value).items()})


def _read_items(item: Reader, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _MismatchError(value, "a list")
    found = []
    for place, each in enumerate(value):
        try:
            found.append(item(each))
        except _MismatchError as error:
            error.path = f"[{place}]{error.path}"
            raise
    return tuple(found)
