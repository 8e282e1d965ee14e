"""NumPy, imported when something of it is first used.

A plain job of texts to shards needs none of it: what the core makes crosses as memoryviews. Importing NumPy
took 47 of the 400 ms of CPU time of a small `tokenmill prepare`, as long as the core took for five megabytes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["np"]

if TYPE_CHECKING:
    import numpy as np
else:

    class _NumPy:
        """Stands for the module: `np.zeros` imports it, and what was looked up once is at hand."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("numpy"), name)
            setattr(self, name, value)
            return value

    np = _NumPy()
