"""Under `ulimit -v` NumPy is imported only if it fits: refused memory, its algebra retries for ever."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tokenmill.base.hardware.memory import measure_address_room

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

# Its libraries, and the first buffer of its linear algebra.
NUMPY_BYTES = 128 << 20


class RoomForNumPy:
    """An import hook that finds nothing, but raises `MemoryError` when NumPy is imported and does not fit."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> None:
        """Ask for room the first time that NumPy is imported."""
        if fullname != "numpy":
            return
        sys.meta_path.remove(self)
        room = measure_address_room()
        if room is not None and room < NUMPY_BYTES:
            raise MemoryError(
                f"NumPy takes {NUMPY_BYTES >> 20} MB, and the limit of this process (ulimit -v) "
                f"leaves {room >> 20} MB"
            )
