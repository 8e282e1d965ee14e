"""A frozen group of settings: its annotations are its schema, its class attributes the defaults.

>>> class Speed(Section):
...     threads: Annotated[int, Above(0)] = 1
>>> Speed(threads="8")
Speed(threads=8)

What is given is checked when a section is made, and a key that it does not have is refused. Our own few lines
instead of a library for models: importing one took longer than many a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, dataclass_transform

from tokenmill.base.errors import ConfigError
from tokenmill.settings.kinds import MismatchError, check

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUIRED = object()


class Setting(NamedTuple):
    """One key of a section: what it may be, and what it is when it is left out."""

    annotation: Any
    default: Any = REQUIRED


class SettingError(ConfigError):
    """A section cannot be made: `key` is the setting at fault, with the names of the sections around it."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key
        self.problem = problem


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Section:
    """Frozen, compared by its values; a subclass says what it holds."""

    settings: ClassVar[dict[str, Setting]] = {}

    def __init_subclass__(cls) -> None:
        """Take the schema from the annotations, which must be there as objects and not as strings."""
        cls.settings = {
            name: Setting(annotation, cls.__dict__.get(name, REQUIRED))
            for name, annotation in cls.__annotations__.items()
        }

    def __init__(self, **given: Any) -> None:
        """Check what is given and take the rest from the defaults."""
        given = self.completed(given)
        for key in given:
            if key not in self.settings:
                raise SettingError(key, f"unknown; known here: {', '.join(sorted(self.settings))}")
        for key, setting in self.settings.items():
            self.__dict__[key] = _checked(key, setting, given[key]) if key in given else setting.default
            if self.__dict__[key] is REQUIRED:
                raise SettingError(key, "missing")
        if (found := self.contradiction()) is not None:
            raise SettingError(*found)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A section of plain values, as `to_dict` gives them."""
        return cls(**values)

    @classmethod
    def completed(cls, given: dict[str, Any]) -> dict[str, Any]:
        """What is given, with what follows from it."""
        return given

    def contradiction(self) -> tuple[str, str] | None:
        """A setting that does not go with the others, and why; None if all is well."""
        return None

    def replaced(self, **changes: Any) -> Self:
        """The same with other values, which are trusted."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__ | changes)
        return made

    def to_dict(self) -> dict[str, Any]:
        """The values as JSON has them."""
        return {key: _plain(value) for key, value in self.__dict__.items()}

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot become {value!r}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{key}={value!r}" for key, value in self.__dict__.items())
        return f"{type(self).__name__}({values})"


def _checked(key: str, setting: Setting, value: Any) -> Any:
    try:
        return check(setting.annotation, value)
    except MismatchError as error:
        raise SettingError(key, f"{error}, found {value!r}") from None
    except SettingError as error:
        raise SettingError(f"{key}.{error.key}", error.problem) from None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.to_dict() if isinstance(value, Section) else value
