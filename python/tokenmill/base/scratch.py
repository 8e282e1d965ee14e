"""A folder for what is on disk only while a process works; what a killed one left goes with the next."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tokenmill.base.durable import list_leftovers, temporary_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    """A free path below `parent`, for whoever needs it to create; removed at the end, with its content.

    What dead processes of this host left in `parent` goes first. It may be a place that others use as well,
    such as the system's folder for temporary files, so what cannot be removed stays.
    """
    for left in list_leftovers(parent):
        if left.name.endswith(f"-{name}"):
            shutil.rmtree(left, ignore_errors=True)
    folder = temporary_name(parent / name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
