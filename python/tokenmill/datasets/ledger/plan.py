"""The plan: inputs cut into units. It depends on inputs and settings alone, never on workers or on time.

The plan is stored in the output directory and only ever appended to: inputs that appear later add units after
the old ones, so nothing is done twice and no shard changes its number.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import digest, publish_bytes
from tokenmill.datasets.ledger.manifest import PLAN, InputEntry, PackingIdentity, TokenizerIdentity
from tokenmill.datasets.ledger.plan_inputs import group_inputs, list_inputs
from tokenmill.datasets.ledger.record import (
    Record,
    check_seal,
    check_version,
    encode_record,
    parse_record,
    to_plain,
)
from tokenmill.errors import DatasetError, ResumeError
from tokenmill.sources.model import InputFile, Range

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# The second writes inputs in groups and whole files in runs: of 200,000 small files 58 MB became 10.
PLAN_VERSION = 2
# More parts in a unit than this would make receipts large; reached only by very many tiny files.
MAX_PARTS = 4096
_RANGE = tuple(field.name for field in fields(Range))
_KEYS = ("plan_version", "unit_bytes", "target", "config", "inputs", "units")


@dataclass(frozen=True, slots=True)
class Part(Record):
    """A range of one input; `input` counts within the plan."""

    input: int
    range: Range

    def to_json(self) -> Any:
        """`[input, kind, start, stop, size]`."""
        return [self.input, *to_plain(self.range).values()]

    @classmethod
    def reshape(cls, value: Any) -> Any:
        """The list taken apart."""
        if not isinstance(value, list) or len(value) != 5:
            return value
        return {"input": value[0], "range": dict(zip(_RANGE, value[1:], strict=True))}


def join_parts(parts: Sequence[Part], inputs: Sequence[InputFile]) -> list[list[Any]]:
    """Parts as a plan has them: neighbours that are whole files as `[first, count]`, any other by itself."""
    joined: list[list[Any]] = []
    for part in parts:
        size = inputs[part.input].size
        if part.range != Range("file", 0, size, size):
            joined.append(part.to_json())
        elif joined and len(joined[-1]) == 2 and sum(joined[-1]) == part.input:
            joined[-1][1] += 1
        else:
            joined.append([part.input, 1])
    return joined


def list_parts(unit: Any, inputs: Any) -> Any:
    """The unit of a plan with its parts one by one; what is damaged is left for the reader to name."""
    if not isinstance(unit, dict) or not isinstance(unit.get("parts"), list) or not isinstance(inputs, list):
        return unit
    listed = []
    for part in unit["parts"]:
        whole = isinstance(part, list) and len(part) == 2 and all(type(each) is int for each in part)
        if not whole or not 0 <= part[0] < sum(part) <= len(inputs):
            listed.append(part)
            continue
        for at in range(part[0], sum(part)):
            size = inputs[at].get("size") if isinstance(inputs[at], dict) else None
            listed.append([at, "file", 0, size, size])
    return unit | {"parts": listed}


@dataclass(frozen=True, slots=True)
class Unit(Record):
    """A bounded part of the input that becomes one shard; `id` hashes all that decides its bytes."""

    ordinal: int
    id: str
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """The shard's name: `00000-9f2c41d07a3b55e1`."""
        return f"{self.ordinal:05d}-{self.id[:16]}"

    @property
    def bytes(self) -> int:
        """About how many input bytes it reads."""
        return sum(part.range.size for part in self.parts)


@dataclass(frozen=True, slots=True)
class Target(Record):
    """What the dataset will be: enough for anyone with the receipts to publish its manifest."""

    format: str
    dtype: str
    tokenizer: TokenizerIdentity
    packing: PackingIdentity


@dataclass(frozen=True, slots=True)
class Plan(Record):
    """Inputs and units in order, and the settings they were planned for."""

    target: Target
    values: dict[str, Any]
    inputs: tuple[InputFile, ...]
    units: tuple[Unit, ...]
    unit_bytes: int

    @property
    def bytes(self) -> int:
        """About how many input bytes there are."""
        return sum(unit.bytes for unit in self.units)

    @property
    def foreseen_bytes(self) -> int | None:
        """How many bytes will be read, where that is known: a compressed input expands."""
        plain = all(file.compression is None for file in self.inputs)
        return self.bytes if plain else None

    @property
    def entries(self) -> tuple[InputEntry, ...]:
        """The inputs as a manifest lists them."""
        return tuple(InputEntry(file.url, file.size, file.identity) for file in self.inputs)

    def to_json(self) -> dict[str, Any]:
        """The object of docs/format.md, version first; a unit's ordinal is its place."""
        return {
            "plan_version": PLAN_VERSION,
            "unit_bytes": self.unit_bytes,
            "target": self.target.to_json(),
            "config": self.values,
            "inputs": group_inputs(self.inputs),
            "units": [{"id": unit.id, "parts": join_parts(unit.parts, self.inputs)} for unit in self.units],
        }

    @classmethod
    def reshape(cls, value: Any) -> Any:
        """Inputs and parts one by one, and units with their ordinals again."""
        if not isinstance(value, dict) or not isinstance(value.get("units"), list):
            return value
        inputs, units = value.get("inputs"), value["units"]
        if value.get("plan_version") != 1:
            inputs = list_inputs(inputs)
            units = [list_parts(unit, inputs) for unit in units]
        units = [
            unit | {"ordinal": ordinal} if isinstance(unit, dict) else unit
            for ordinal, unit in enumerate(units)
        ]
        return value | {"inputs": inputs, "units": units, "values": value.get("config")}


def make_plan(
    target: Target,
    values: dict[str, Any],
    inputs: Sequence[InputFile],
    cut: Callable[[InputFile, int], list[Range]],
    *,
    unit_bytes: int,
    num_shards: int | None = None,
    previous: Plan | None = None,
) -> Plan:
    """A new plan, or the previous one with units for the inputs that it does not have yet."""
    if previous is None:
        if num_shards is not None:
            total = sum(file.size for file in inputs)
            unit_bytes = max(1, -(-total // num_shards))
        previous = Plan(target, values, (), (), unit_bytes)
    known = {_key(file) for file in previous.inputs}
    fresh = [file for file in inputs if _key(file) not in known]
    if not fresh:
        return previous
    every = (*previous.inputs, *fresh)
    first = len(previous.inputs)
    parts = [
        Part(first + index, piece)
        for index, file in enumerate(fresh)
        for piece in cut(file, previous.unit_bytes)
    ]
    groups = _spread(parts, num_shards) if num_shards is not None else _fill(parts, previous.unit_bytes)
    start = len(previous.units)
    units = tuple(
        Unit(start + nth, _make_unit_id(values, every, group), tuple(group))
        for nth, group in enumerate(groups)
    )
    return Plan(target, values, every, (*previous.units, *units), previous.unit_bytes)


def name_units(plan: Plan) -> tuple[Unit, ...]:
    """The units of a plan with the ids that their parts and the settings give them."""
    return tuple(
        Unit(unit.ordinal, _make_unit_id(plan.values, plan.inputs, list(unit.parts)), unit.parts)
        for unit in plan.units
    )


def _key(file: InputFile) -> tuple[str, str | None]:
    return file.url, file.split


def _make_unit_id(values: dict[str, Any], inputs: Sequence[InputFile], parts: list[Part]) -> str:
    identity = [(inputs[part.input].url, inputs[part.input].identity, str(part.range)) for part in parts]
    return digest({"parts": identity, "config": values})


def _fill(parts: list[Part], unit_bytes: int) -> list[list[Part]]:
    """Neighbours together up to `unit_bytes`, so that a million small files are not a million shards."""
    groups: list[list[Part]] = []
    held = 0
    for part in parts:
        if groups and held + part.range.size <= unit_bytes and len(groups[-1]) < MAX_PARTS:
            groups[-1].append(part)
            held += part.range.size
        else:
            groups.append([part])
            held = part.range.size
    return groups


def _spread(parts: list[Part], count: int) -> list[list[Part]]:
    """`count` groups of neighbours of about equal size; fewer only if there are fewer parts."""
    total = sum(part.range.size for part in parts) or 1
    groups: dict[int, list[Part]] = {}
    done = 0
    for nth, part in enumerate(parts):
        middle = done + part.range.size / 2
        # No part may fall so far back that the rest cannot fill the groups that are left.
        group = max(int(middle * count / total), count - (len(parts) - nth))
        group = min(group, count - 1, (max(groups) + 1) if groups else 0)
        groups.setdefault(group, []).append(part)
        done += part.range.size
    return list(groups.values())


def save_plan(root: Path, plan: Plan) -> None:
    """Publish the plan, unless the same plan is there."""
    if load_plan(root) != plan:
        publish_bytes(root / PLAN, encode_record(plan.to_json()))


def load_plan(root: Path) -> Plan | None:
    """The plan of an output directory, or None if it has none; raises `DatasetError` for a damaged one."""
    path = root / PLAN
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return parse_plan(data, str(path))
    except DatasetError as error:
        raise DatasetError(f"{error}. Copy it again, or start over with --fresh") from None


def parse_plan(data: bytes, where: str) -> Plan:
    """The plan in a file; raises `DatasetError` for one that is damaged, or of a newer version."""
    value = parse_record(data, where)
    check_version(value, "plan_version", PLAN_VERSION, where)
    check_seal(value, data, where, _KEYS)
    plan = Plan.from_json(value, where)
    if any(part.input >= len(plan.inputs) for unit in plan.units for part in unit.parts):
        raise DatasetError(f"{where} is damaged: a unit reads an input that is not there")
    return plan


def check_resume(previous: Plan, values: dict[str, Any], inputs: Sequence[InputFile]) -> None:
    """Raise `ResumeError` if the settings differ, or if an input of the plan changed or is gone."""
    differ = [
        f"{name} (was {previous.values.get(name)!r}, now {values.get(name)!r})"
        for name in sorted({*previous.values, *values})
        if previous.values.get(name) != values.get(name)
    ]
    if differ:
        raise ResumeError(
            f"the output directory holds a dataset made with other settings: {'; '.join(differ)}. "
            "Use those settings, another --output, or --fresh to start over"
        )
    today = {_key(file): file for file in inputs}
    for file in previous.inputs:
        now = today.get(_key(file))
        if now is None:
            raise ResumeError(
                f"{file.url} is part of this dataset but is no longer among the inputs. "
                "Pass it again, use another --output, or --fresh to start over"
            )
        if now.identity != file.identity:
            raise ResumeError(
                f"{file.url} has changed since it was planned (was {file.identity}, now {now.identity}). "
                "Restore it, use another --output, or --fresh to start over"
            )
