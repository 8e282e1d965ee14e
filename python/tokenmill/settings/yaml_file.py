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

Pairs = list[tuple[yaml.Node, yaml.Node]]


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
                if (made := loader.construct_object(item, deep=True)) is not None:
                    found.append(Given(full, made, Origin("file", place)))
    return found


def read_keys(path: str | PathLike[str], known: Sequence[str]) -> dict[str, Any]:
    """Return the values of a file that has only these keys; null is skipped."""
    with _open_loader(path) as (loader, pairs):
        for key, _ in pairs:
            if key.value not in known:
                raise explain_unknown(str(key.value), _locate(path, key), list(known))
        found = {str(key.value): loader.construct_object(value, deep=True) for key, value in pairs}
    return {key: value for key, value in found.items() if value is not None}


@contextmanager
def _open_loader(path: str | PathLike[str]) -> Iterator[tuple[yaml.SafeLoader, Pairs]]:
    """Yield a loader of the file and its outermost pairs; errors name the line."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"no file at {path}; `tokenmill config init` writes one of settings") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the settings file {path} as UTF-8 text: {error}") from error
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        yield loader, [] if root is None else _list_pairs(root, "the file", path)
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError, LookupError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place, problem = (path, error) if mark is None else (f"{path}:{mark.line + 1}", error.problem)  # type: ignore[union-attr]
        raise ConfigError(
            f"{place}: not valid YAML: {problem}. Check indentation (spaces instead of tabs), the space "
            "after colons, and quotes around text"
        ) from error


def _list_pairs(node: yaml.Node, what: str, path: str | PathLike[str]) -> Pairs:
    """Return the pairs of a mapping; raise `ConfigError` for any other node, or for a key given twice."""
    if not isinstance(node, yaml.MappingNode):
        found = repr(node.value) if isinstance(node, yaml.ScalarNode) else "a list"
        raise ConfigError(f"{_locate(path, node)}: expected `key: value` lines in {what}, found {found}")
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if str(key.value) in seen:
            first = f"first on line {seen[str(key.value)]}"
            raise ConfigError(f"{_locate(path, key)}: {key.value!r} is given twice ({first}); keep one")
        seen[str(key.value)] = key.start_mark.line + 1
    return list(node.value)


def _locate(path: str | PathLike[str], node: yaml.Node) -> str:
    return f"{path}:{node.start_mark.line + 1}"


def _explain_stray(name: str, place: str) -> ConfigError:
    """Return the error for a key at the left margin that is not a section."""
    if (full := find_full_name(name)) is None:
        return explain_unknown(name, place, list(SECTIONS))
    home = full.partition(".")[0]
    return ConfigError(f"{place}: {name!r} belongs in the section {home}: write `{home}:` and it below")


def _find_name(section: str, key: str, place: str) -> str:
    homes = (section, *IN_TOKENIZER) if section == "tokenizer" else (section,)
    known = [full.partition(".")[2] for full in SETTINGS if full.partition(".")[0] in homes]
    full = find_full_name(f"{section}.{key}") if key in known else None
    if full is None:
        raise explain_unknown(key, place, known)
    return full
