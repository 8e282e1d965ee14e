"""A YAML file of settings, with the line of every key, so that an error can point at it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tokenmill.errors import ConfigError
from tokenmill.settings.names import IN_TOKENIZER, SECTIONS, SETTINGS, explain_unknown
from tokenmill.settings.origin import Given, Origin
from tokenmill.settings.section import list_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike


# More values than any settings have. Aliases of aliases can stand for billions of them in a few lines.
_MOST_VALUES = 100_000


def read_yaml(path: str | PathLike[str]) -> list[Given]:
    """Every setting of the file in its order; null means "leave it automatic" and is left out."""
    with _open_loader(path) as (loader, root):
        if root is None:
            return []
        return [
            given
            for pair in _list_pairs(root, "the file", path)
            for given in _read_section(loader, *pair, path)
        ]


def read_keys(path: str | PathLike[str], known: Sequence[str]) -> dict[str, Any]:
    """The values of a file that has these keys and no others, null left out."""
    with _open_loader(path) as (loader, root):
        pairs = [] if root is None else _list_pairs(root, "the file", path)
        found = {str(key.value): _construct(loader, value, path) for key, value in pairs}
        for key, _ in pairs:
            if key.value not in known:
                raise explain_unknown(str(key.value), f"{path}:{key.start_mark.line + 1}", list(known))
    return {key: value for key, value in found.items() if value is not None}


@contextmanager
def _open_loader(path: str | PathLike[str]) -> Iterator[tuple[yaml.SafeLoader, yaml.Node | None]]:
    """A loader of the file and its outermost node, if it has one; errors name the line."""
    text = _read_text(Path(path))
    try:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            if root is not None and _count_values(root, {}) > _MOST_VALUES:
                raise ConfigError(
                    f"{path}: stands for more than {_MOST_VALUES:,} values, by aliases (*) of aliases; write "
                    "out what you mean"
                )
            yield loader, root
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else 1
        raise ConfigError(f"{path}:{line}: not valid YAML: {error.problem}. {_suggest_fix(error)}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise ConfigError(f"{path}:{line}: not valid YAML: {error.reason}; remove that character") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    except RecursionError:
        raise ConfigError(f"{path}: values are nested too deep for any setting") from None


def _count_values(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for, with what its aliases stand for each time."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        known[id(node)] = 0  # a node inside itself; constructing it is refused
        items = (
            node.value
            if isinstance(node, yaml.SequenceNode)
            else [part for pair in node.value for part in pair]
        )
        known[id(node)] = 1 + sum(_count_values(item, known) for item in items)
    return known[id(node)]


def _construct(loader: yaml.SafeLoader, node: yaml.Node, path: str | PathLike[str]) -> Any:
    """The value of a node; YAML's own types can be written so that Python has no such value (month 13)."""
    try:
        return loader.construct_object(node, deep=True)
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        kind, place = node.tag.rpartition(":")[2], f"{path}:{node.start_mark.line + 1}"
        raise ConfigError(
            f"{place}: {_describe(node)[:60]} cannot be read as {kind} ({error}); put it in quotes if it is "
            "text"
        ) from error


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"no settings file at {path}; write one with: tokenmill config init {path}"
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot read the settings file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8 at byte {error.start}; a settings file is UTF-8 text"
        ) from error


def _suggest_fix(error: yaml.MarkedYAMLError) -> str:
    if "\\t" in (error.problem or ""):
        return "Indent with spaces instead of tabs"
    return "Check the indentation, and the space after each colon"


def _list_pairs(node: yaml.Node, what: str, path: str | PathLike[str]) -> list[tuple[yaml.Node, yaml.Node]]:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{path}:{line}: expected `key: value` lines in {what}, found {_describe(node)}")
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(
                f"{path}:{key.start_mark.line + 1}: a key of {what} is {_describe(key)}; expected a word"
            )
        if key.value in seen:
            here = key.start_mark.line + 1
            raise ConfigError(
                f"{path}:{here}: {key.value!r} is given twice (first on line {seen[key.value]}); keep one"
            )
        seen[str(key.value)] = key.start_mark.line + 1
    return list(node.value)


def _describe(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value)
    return "a list" if isinstance(node, yaml.SequenceNode) else "an object"


def _read_section(
    loader: yaml.SafeLoader, key: yaml.Node, value: yaml.Node, path: str | PathLike[str]
) -> list[Given]:
    section = str(key.value)
    if section not in SECTIONS:
        raise _explain_stray(section, key, path)
    if isinstance(value, yaml.ScalarNode) and value.tag.endswith(":null"):
        return []
    if isinstance(value, yaml.MappingNode):
        # Takes `<<: *defaults` apart, so that merged keys count as the section's own.
        loader.flatten_mapping(value)
    found = []
    for name_node, value_node in _list_pairs(value, f"section {section}", path):
        place = f"{path}:{name_node.start_mark.line + 1}"
        item: Any = _construct(loader, value_node, path)
        if item is not None:
            found.append(Given(_find_name(section, str(name_node.value), place), item, Origin("file", place)))
        else:
            _find_name(section, str(name_node.value), place)
    return found


def _explain_stray(name: str, key: yaml.Node, path: str | PathLike[str]) -> ConfigError:
    """A key at the left margin that is not a section: say which section it belongs in."""
    place = f"{path}:{key.start_mark.line + 1}"
    homes = [full for full in SETTINGS if full.partition(".")[2] == name]
    if homes:
        section, _, bare = homes[0].partition(".")
        return ConfigError(
            f"{place}: {name!r} belongs in the section {section}: write `{section}:` and {bare} below it"
        )
    return explain_unknown(name, place, list(SECTIONS))


def _find_name(section: str, key: str, place: str) -> str:
    if f"{section}.{key}" in SETTINGS:
        return f"{section}.{key}"
    fields = list(list_settings(SECTIONS[section]))
    if section == "tokenizer":
        fields += IN_TOKENIZER
        if key in IN_TOKENIZER:
            return IN_TOKENIZER[key]
    raise explain_unknown(key, place, fields)
