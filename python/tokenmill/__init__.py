"""Turn raw text into training-ready tokens: train, encode, prepare.

>>> import tokenmill
>>> tokenizer = tokenmill.train_from_iterator(["low lower lowest"] * 9, 260, progress=False)
>>> tokenizer.decode(tokenizer.encode("the lowest"))
'the lowest'

Names are imported on first use, so that `import tokenmill` takes some milliseconds. Exceptions are in
`tokenmill.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tokenmill.errors import TokenmillError

if TYPE_CHECKING:
    from tokenmill.datasets.dataset import Dataset
    from tokenmill.datasets.dataset import open_dataset as open  # noqa: A004
    from tokenmill.datasets.mixture import Mixture
    from tokenmill.datasets.rows import Rows
    from tokenmill.pipeline.extend import extend
    from tokenmill.pipeline.prepare import prepare
    from tokenmill.pipeline.remove import remove
    from tokenmill.pipeline.stream import stream
    from tokenmill.pipeline.train import train, train_from_iterator
    from tokenmill.pipeline.transcode import transcode
    from tokenmill.tokenizer.interop.hf import patch_transformers
    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.vocab.card import card
    from tokenmill.vocab.trim import trim

__all__ = [
    "Dataset",
    "Mixture",
    "Rows",
    "Tokenizer",
    "TokenmillError",
    "card",
    "extend",
    "open",
    "patch_transformers",
    "prepare",
    "remove",
    "stream",
    "train",
    "train_from_iterator",
    "transcode",
    "trim",
]

# Public name -> its module.
_HOMES = {
    "Dataset": "datasets.dataset",
    "Mixture": "datasets.mixture",
    "Rows": "datasets.rows",
    "Tokenizer": "tokenizer.tokenizer",
    "card": "vocab.card",
    "extend": "pipeline.extend",
    "open": "datasets.dataset",
    "patch_transformers": "tokenizer.interop.hf",
    "prepare": "pipeline.prepare",
    "remove": "pipeline.remove",
    "stream": "pipeline.stream",
    "train": "pipeline.train",
    "train_from_iterator": "pipeline.train",
    "transcode": "pipeline.transcode",
    "trim": "vocab.trim",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("tokenmill._core").__version__
    if name not in _HOMES:
        raise AttributeError(f"module 'tokenmill' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(f"tokenmill.{_HOMES[name]}"), "open_dataset" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
