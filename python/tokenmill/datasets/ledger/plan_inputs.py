"""The inputs of a plan in groups: neighbours of one folder and kind say once what they share."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from tokenmill.sources.model import InputFile

if TYPE_CHECKING:
    from collections.abc import Sequence

OF_EACH = ("url", "size", "identity")
_SHARED = tuple(field.name for field in fields(InputFile) if field.name not in OF_EACH)
_DEFAULTS = {field.name: field.default for field in fields(InputFile) if field.default is not MISSING}


def group_inputs(inputs: Sequence[InputFile]) -> list[dict[str, Any]]:
    """`[a/1.txt, a/2.txt]` -> `[{"folder": "a/", "format": "txt", …, "files": [["1.txt", 5, "5-17…"], …]}]`.

    Keys with their default are left out, but for the format, which has none.
    """
    groups: list[dict[str, Any]] = []
    last: tuple[Any, ...] | None = None
    for file in inputs:
        folder, slash, name = file.url.rpartition("/")
        kind = (folder + slash, *(getattr(file, key) for key in _SHARED))
        if kind != last:
            shared = dict(zip(("folder", *_SHARED), kind, strict=True))
            spelled = {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in shared.items()
                if key not in _DEFAULTS or value != _DEFAULTS[key]
            }
            groups.append(spelled | {"files": []})
            last = kind
        groups[-1]["files"].append([name, file.size, file.identity])
    return groups


def list_inputs(groups: Any) -> Any:
    """The inputs one by one, as objects; what is damaged is left as it is, for the reader to name."""
    if not isinstance(groups, list):
        return groups
    listed: list[Any] = []
    for group in groups:
        folder = group.get("folder") if isinstance(group, dict) else None
        files = group.get("files") if isinstance(group, dict) else None
        if not isinstance(folder, str) or not isinstance(files, list):
            listed.append(group)
            continue
        shared = {key: value for key, value in group.items() if key in _SHARED}
        for file in files:
            if not isinstance(file, list) or len(file) != len(OF_EACH) or not isinstance(file[0], str):
                listed.append(file)
            else:
                listed.append({"url": folder + file[0], "size": file[1], "identity": file[2]} | shared)
    return listed
