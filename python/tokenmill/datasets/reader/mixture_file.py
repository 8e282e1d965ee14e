"""A mixture in a YAML file: its datasets by name, how rows are cut, and the arguments of `Mixture`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tokenmill.datasets.reader.dataset import open_dataset
from tokenmill.datasets.reader.mixture import Mixture
from tokenmill.errors import ConfigError
from tokenmill.settings.yaml_file import read_keys

if TYPE_CHECKING:
    import os

_CUT = ("context_length", "overlap", "tail", "columns")
_MIXED = ("weights", "stages", "seed", "stop", "rows_per_step", "steps", "epochs")
KEYS = ("sources", *_CUT, *_MIXED)


def load_mixture(path: str | os.PathLike[str]) -> Mixture:
    """The mixture of a file; raises `ConfigError` that names the file for whatever is wrong in it."""
    found = read_keys(path, KEYS)
    sources = found.get("sources")
    if not isinstance(sources, Mapping) or not sources:
        raise ConfigError(f"{path}: sources is missing: name each dataset, as in `web: path/to/dataset`")
    cut = {key: found[key] for key in _CUT if key in found}
    _check_kinds(path, found)
    try:
        rows = {}
        for name, place in sources.items():
            dataset = open_dataset(str(place))
            packed = dataset.manifest.layout == "rows"
            mine = {key: cut[key] for key in cut if not packed or key == "columns"}
            rows[str(name)] = dataset.rows(**mine)
        return Mixture(rows, **{key: found[key] for key in _MIXED if key in found})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _check_kinds(path: str | os.PathLike[str], found: dict[str, Any]) -> None:
    for key, kind, words in (
        ("context_length", int, "a whole number"),
        ("overlap", int, "a whole number"),
        ("seed", int, "a whole number"),
        ("columns", list, "a list of names"),
        ("stages", list, "a list of stages"),
    ):
        if key in found and type(found[key]) is not kind:
            raise ConfigError(f"{path}: {key} is {found[key]!r}; expected {words}")
