"""The plan: inputs cut into units. It depends on inputs and settings alone, not on workers or time.

The plan is stored in the output directory and is append-only. Inputs that appear later add units after the
old ones, so no work is repeated and no shard changes its number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tokenmill.base.durable import digest, publish_bytes
from tokenmill.base.records import Count, Record, encode_record, open_record, to_plain, validate
from tokenmill.datasets.ledger.manifest import PLAN, Target
from tokenmill.errors import DatasetError, ResumeError
from tokenmill.sources.model import InputFile, Range, RangeKind

PLAN_VERSION = 3
# A limit on the size of receipts, reached only with very many tiny files.
MAX_PARTS = 4096


@dataclass(frozen=True, slots=True)
class Part:
    """A range of one input. `input` is its index in the plan."""

    input: int
    range: Range


@dataclass(frozen=True, slots=True)
class Unit:
    """A bounded part of the input that becomes one shard. `id` is a hash of all that affects its bytes."""

    ordinal: int
    id: str
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        """The shard's name: `00000-9f2c41d07a3b55e1`."""
        return f"{self.ordinal:05d}-{self.id[:16]}"

    @property
    def bytes(self) -> int:
        """The approximate number of input bytes that it reads."""
        return sum(part.range.size for part in self.parts)


@dataclass(frozen=True, slots=True)
class Plan:
    """Inputs and units in order, and the settings they were planned for."""

    target: Target
    values: dict[str, Any]
    inputs: tuple[InputFile, ...]
    units: tuple[Unit, ...]
    unit_bytes: int

    @property
    def bytes(self) -> int:
        """The approximate number of input bytes."""
        return sum(unit.bytes for unit in self.units)

    def to_json(self) -> dict[str, Any]:
        """Return the object of docs/format.md, version first. A unit's ordinal is its index."""
        units = [{"id": unit.id, "parts": [_list_part(part) for part in unit.parts]} for unit in self.units]
        return {
            "plan_version": PLAN_VERSION,
            "unit_bytes": self.unit_bytes,
            "target": to_plain(self.target),
            "config": self.values,
            "inputs": [_list_values(file) for file in self.inputs],
            "units": units,
        }


def _list_values(file: InputFile) -> dict[str, Any]:
    """Return the fields of an input that are set."""
    values = {field.name: getattr(file, field.name) for field in fields(file)}
    return {name: value for name, value in values.items() if value not in (None, ())}


def _list_part(part: Part) -> list[Any]:
    span = part.range
    return [part.input, span.kind, span.start, span.stop, span.size]


@dataclass(frozen=True, slots=True)
class _UnitRecord:
    id: str
    parts: tuple[tuple[Count, RangeKind, Count, Count, Count], ...]


@dataclass(frozen=True, slots=True)
class _PlanRecord(Record):
    """plan.json without its version."""

    unit_bytes: Count
    target: Target
    config: dict[str, Any]
    inputs: tuple[InputFile, ...]
    units: tuple[_UnitRecord, ...]


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
    """Return a new plan, or the previous one extended by units for new inputs."""
    if previous is None:
        if num_shards is not None:
            total = sum(file.size for file in inputs)
            unit_bytes = max(1, -(-total // num_shards))
        previous = Plan(target, values, (), (), unit_bytes)
    # The default view changes no byte, so it may differ from the previous plan.
    previous = replace(previous, target=replace(previous.target, packing=target.packing))
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
    units = list(previous.units)
    for group in groups:
        identity = [(every[part.input].url, every[part.input].identity, str(part.range)) for part in group]
        unit_id = digest({"parts": identity, "config": values})
        units.append(Unit(len(units), unit_id, tuple(group)))
    return Plan(target, values, every, tuple(units), previous.unit_bytes)


def _key(file: InputFile) -> tuple[str, str | None]:
    return file.url, file.split


def _fill(parts: list[Part], unit_bytes: int) -> list[list[Part]]:
    """Group consecutive parts up to `unit_bytes`, so that many small files share a shard."""
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
    """Return `count` groups of consecutive parts of similar size, or fewer if there are fewer parts."""
    total = sum(part.range.size for part in parts) or 1
    groups: dict[int, list[Part]] = {}
    done = 0
    for nth, part in enumerate(parts):
        middle = done + part.range.size / 2
        # Enough parts must remain for each later group to get one.
        group = max(int(middle * count / total), count - (len(parts) - nth))
        group = min(group, count - 1, (max(groups) + 1) if groups else 0)
        groups.setdefault(group, []).append(part)
        done += part.range.size
    return list(groups.values())


def save_plan(root: Path, plan: Plan) -> None:
    """Publish the plan, unless the same plan is already stored."""
    if load_plan(root) != plan:
        publish_bytes(root / PLAN, encode_record(plan.to_json()))


def load_plan(root: Path) -> Plan | None:
    """Return the plan of an output directory, or None. Raise `DatasetError` if it is corrupt."""
    path = root / PLAN
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return parse_plan(data, str(path))
    except DatasetError as error:
        raise DatasetError(f"{error}. Copy it again, or start over with `fresh=True`") from None


def parse_plan(data: bytes, where: str) -> Plan:
    """Return the plan in a file. Raise `DatasetError` if it is corrupt or of another version."""
    record = validate(_PlanRecord, open_record(data, where, "plan_version", PLAN_VERSION), where)
    units: list[Unit] = []
    for unit in record.units:
        if any(part[0] >= len(record.inputs) for part in unit.parts):
            raise DatasetError(f"{where} is damaged: unit {unit.id} reads an input that is not listed")
        parts = tuple(Part(part[0], Range(*part[1:])) for part in unit.parts)
        units.append(Unit(len(units), unit.id, parts))
    return Plan(record.target, record.config, record.inputs, tuple(units), record.unit_bytes)


def check_resume(previous: Plan, values: dict[str, Any], inputs: Sequence[InputFile]) -> None:
    """Raise `ResumeError` if the settings differ, or if an input of the plan changed or is missing."""
    differ = [
        f"{name} (was {previous.values.get(name)!r}, now {values.get(name)!r})"
        for name in sorted({*previous.values, *values})
        if previous.values.get(name) != values.get(name)
    ]
    if differ:
        raise ResumeError(
            f"the output directory contains a dataset with other settings: {'; '.join(differ)}. "
            "Use those settings, another `output`, or `fresh=True` to start over"
        )
    today = {_key(file): file for file in inputs}
    for file in previous.inputs:
        now = today.get(_key(file))
        if now is None:
            raise ResumeError(
                f"{file.url} is part of this dataset but is no longer among the inputs. "
                "Pass it again, use another `output`, or `fresh=True` to start over"
            )
        if now.identity != file.identity:
            raise ResumeError(
                f"{file.url} has changed since it was planned (was {file.identity}, now {now.identity}). "
                "Restore it, use another `output`, or `fresh=True` to start over"
            )
