"""Turn raw text into training-ready tokens: train, encode, prepare.

>>> import tokenmill
>>> sorted(tokenmill.__all__)[:3]
['Dataset', 'Mixture', 'TokenBatch']

Every name below is imported on first use, so that `import tokenmill` stays under 100 ms.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenmill.base.errors import TokenmillError
    from tokenmill.datasets.reader.dataset import Dataset
    from tokenmill.datasets.reader.dataset import open_dataset as open  # noqa: A004
    from tokenmill.datasets.reader.mixture import Mixture
    from tokenmill.engine.batch import TokenBatch
    from tokenmill.engine.tokenizer import Tokenizer
    from tokenmill.jobs.prepare.prepare import prepare
    from tokenmill.jobs.train import train

__all__ = ["Dataset", "Mixture", "TokenBatch", "Tokenizer", "TokenmillError", "open", "prepare", "train"]

_HOME = {
    "Dataset": ("tokenmill.datasets.reader.dataset", "Dataset"),
    "Mixture": ("tokenmill.datasets.reader.mixture", "Mixture"),
    "TokenBatch": ("tokenmill.engine.batch", "TokenBatch"),
    "Tokenizer": ("tokenmill.engine.tokenizer", "Tokenizer"),
    "TokenmillError": ("tokenmill.base.errors", "TokenmillError"),
    "open": ("tokenmill.datasets.reader.dataset", "open_dataset"),
    "prepare": ("tokenmill.jobs.prepare.prepare", "prepare"),
    "train": ("tokenmill.jobs.train", "train"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("tokenmill._core").__version__
    if name not in _HOME:
        raise AttributeError(f"module 'tokenmill' has no attribute {name!r}; it has {', '.join(__all__)}")
    module, attribute = _HOME[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
