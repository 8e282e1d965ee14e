"""Which versions of other packages are here."""

from __future__ import annotations

from importlib import metadata


def find_version(package: str) -> str | None:
    """`"numpy"` -> `"2.4.6"`; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
