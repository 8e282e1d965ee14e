"""A frozen group of settings: a dataclass whose fields say what they may be, their default and their help.

    @dataclass(frozen=True, kw_only=True)
    class Speed(Section):
        threads: int = setting(1, "How many at once.")

    Speed.from_dict({"threads": "8"})  # -> Speed(threads=8)

Our own code makes a section as it makes any dataclass, and the type checker reads along. What a user wrote
goes through `from_dict`, or value by value through `kinds.check`: it is checked once, and then trusted.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

from tokenmill.errors import ConfigError
from tokenmill.settings.kinds import MismatchError, check

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
Job = Literal["prepare", "train"]
Use = Literal["first", "often", "rare"]


class Setting(NamedTuple):
    """One key of a section, with all that is known of it.

    `only` is the one job that looks at it, None where both do. Where it `decides`, another value changes the
    bytes that come out. It is `spelled` as people type it, where that is not the key; `also` are other words,
    and `former` ones still work, but are not shown.
    Its `use` is where `--help` has it: first of all, often under its section, rarely in `--help-all` alone.
    """

    annotation: Any
    default: Any
    meaning: str = ""
    only: Job | None = None
    decides: bool = False
    spelled: str = ""
    also: tuple[str, ...] = ()
    former: tuple[str, ...] = ()
    use: Use = "rare"


def setting(default: T, meaning: str, **marks: Any) -> T:
    """A field that changes only speed or messages; `marks` are those of `Setting`."""
    return field(default=default, metadata={"meaning": meaning, **marks})


def deciding(default: T, meaning: str, **marks: Any) -> T:
    """A field that changes the bytes that come out."""
    return setting(default, meaning, decides=True, **marks)


def list_settings(section: type[Section]) -> dict[str, Setting]:
    """Every setting of a section by its key, in order."""
    return {
        each.name: Setting(each.type, each.default, **{"only": section.job, **each.metadata})
        for each in fields(section)  # type: ignore[arg-type] # every section is a dataclass
    }


class SettingError(ConfigError):
    """A section cannot be made: `key` is the setting at fault, with the names of the sections around it."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key
        self.problem = problem


class Section:
    """What all sections can do; a subclass is a frozen dataclass of fields made by `setting`."""

    job: ClassVar[Job | None] = None
    """The one job that looks at this section, or None for both."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Its settings that name files or folders."""

    def __post_init__(self) -> None:
        """Refuse settings that do not go together, and names that no file can have."""
        for key in self.paths:
            if (problem := _find_bad_name(getattr(self, key))) is not None:
                raise SettingError(key, problem)
        if (found := self.find_contradiction()) is not None:
            raise SettingError(*found)

    def find_contradiction(self) -> tuple[str, str] | None:
        """A setting that does not go with the others, and why; None if all is well."""
        return None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A section of what somebody wrote, or of what `to_dict` gave; each value is checked."""
        if not isinstance(values, dict):
            raise MismatchError("a section of settings")
        known = list_settings(cls)
        if strange := next((key for key in values if key not in known), None):
            raise SettingError(strange, f"unknown; known here: {', '.join(sorted(known))}")
        return cls(**{key: _read(key, known[key].annotation, value) for key, value in values.items()})

    def to_dict(self) -> dict[str, Any]:
        """The values as JSON has them."""
        return {key: _to_plain(value) for key, value in self.__dict__.items()}


def _read(key: str, annotation: Any, value: Any) -> Any:
    try:
        nested = isinstance(annotation, type) and issubclass(annotation, Section)
        return annotation.from_dict(value) if nested else check(annotation, value)
    except MismatchError as error:
        raise SettingError(key, f"{error}, found {value!r}") from None
    except SettingError as error:
        raise SettingError(f"{key}.{error.key}", error.problem) from None


def _find_bad_name(value: str | tuple[str, ...] | None) -> str | None:
    """Why a name, or one of several, is none; `""` would be the current folder, most likely by accident."""
    names = (value,) if isinstance(value, str) else value or ()
    if not all(names):
        return "a name is empty; give the path of a file or folder (. is the current one)"
    if any("\0" in name for name in names):
        return "a name contains a null character, which no file has; correct it"
    return None


def _to_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_plain(item) for item in value]
    return value.to_dict() if isinstance(value, Section) else value
