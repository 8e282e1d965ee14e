"""A YAML file of settings, with the line of every key, so that an error can point at it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from tokenmill.errors import ConfigError
from tokenmill.settings.resolve import IN_TOKENIZER, Given, Origin, explain_unknown, find_full_name
from tokenmill.settings.schema import SECTIONS, SETTINGS


class _Loader(yaml.SafeLoader):
    """A loader that reads dates as text."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [each for each in resolvers if not each[0].endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_yaml(path: str | PathLike[str]) -> list[Given]:
    """Return every setting of the file in order; null means automatic and is skipped."""
    found = []
    with _open_loader(path) as (loader, pairs):
        for key, value in pairs:
            section = str(key.value)
            if section not in SECTIONS:
                raise _explain_stray(section, _locate(path, key))
            if value.tag.endswith(":null"):
                continue
            if isinstance(value, yaml.MappingNode):
                loader.flatten_mapping(value)  # resolves `<<: *defaults`
            for name, item in _list_pairs(value, f"section {section}", path):
                place = _locate(path, name)
                full = _find_name(section, str(name.value), place)
                if (made := _construct(loader, item, path)) is not None:
                    found.append(Given(full, made, Origin("file", place)))
    return found


def read_keys(path: str | PathLike[str], known: Sequence[str]) -> dict[str, Any]:
    """Return the values of a file that has only these keys; null is skipped."""
    with _open_loader(path) as (loader, pairs):
        for key, _ in pairs:
            if key.value not in known:
                raise explain_unknown(str(key.value), _locate(path, key), list(known))
        found = {str(key.value): _construct(loader, value, path) for key, value in pairs}
    return {key: value for key, value in found.items() if value is not None}


@contextmanager
def _open_loader(path: str | PathLike[str]) -> Iterator[tuple[_Loader, list[tuple[yaml.Node, yaml.Node]]]]:
    """Yield a loader of the file and its outermost pairs; errors name the line."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"no settings file at {path}; write one with: tokenmill config init {path}"
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot read the settings file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; write it as UTF-8 text") from error
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        yield loader, [] if root is None else _list_pairs(root, "the file", path)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        fix = (
            "spaces instead of tabs"
            if "\\t" in (error.problem or "")
            else "indentation and the space after colons"
        )
        raise ConfigError(f"{path}:{line}: not valid YAML: {error.problem}. Check: {fix}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise ConfigError(f"{path}:{line}: not valid YAML: {error.reason}; remove that character") from error
    except RecursionError:
        raise ConfigError(f"{path}: values are nested too deep for any setting") from None


def _construct(loader: _Loader, node: yaml.Node, path: str | PathLike[str]) -> Any:
    """Return the value of a node; `!!int abc` is YAML without a value in Python."""
    try:
        return loader.construct_object(node, deep=True)
    except (ValueError, LookupError) as error:
        kind = node.tag.rpartition(":")[2]
        raise ConfigError(
            f"{_locate(path, node)}: cannot be read as {kind}; quote it if it is text"
        ) from error


def _list_pairs(node: yaml.Node, what: str, path: str | PathLike[str]) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return the pairs of a mapping; raise `ConfigError` for any other node, or for a key given twice."""
    if not isinstance(node, yaml.MappingNode):
        found = repr(node.value) if isinstance(node, yaml.ScalarNode) else "a list"
        raise ConfigError(f"{_locate(path, node)}: expected `key: value` lines in {what}, found {found}")
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{_locate(path, key)}: a key of {what} is not a word")
        if key.value in seen:
            first = f"first on line {seen[key.value]}"
            raise ConfigError(f"{_locate(path, key)}: {key.value!r} is given twice ({first}); keep one")
        seen[str(key.value)] = key.start_mark.line + 1
    return list(node.value)


def _locate(path: str | PathLike[str], node: yaml.Node) -> str:
    return f"{path}:{node.start_mark.line + 1}"


def _explain_stray(name: str, place: str) -> ConfigError:
    """Return the error for a key at the left margin that is not a section."""
    home = next((full.partition(".")[0] for full in SETTINGS if full.partition(".")[2] == name), None)
    if home is None:
        return explain_unknown(name, place, list(SECTIONS))
    return ConfigError(
        f"{place}: {name!r} belongs in the section {home}: write `{home}:` and {name} below it"
    )


def _find_name(section: str, key: str, place: str) -> str:
    homes = (section, *IN_TOKENIZER) if section == "tokenizer" else (section,)
    known = [full.partition(".")[2] for full in SETTINGS if full.partition(".")[0] in homes]
    full = find_full_name(f"{section}.{key}") if key in known else None
    if full is None:
        raise explain_unknown(key, place, known)
    return full
