"""Turn raw text into training-ready tokens: train, encode, prepare.

>>> import tokenmill
>>> tokenizer = tokenmill.train(iter(["low lower lowest"] * 9), 260, progress=False)
>>> tokenizer.decode(tokenizer.encode("the lowest"))
'the lowest'

Everything but the errors is imported on first use, so that `import tokenmill` takes some milliseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tokenmill.errors import (
    ConfigError,
    DatasetError,
    InputError,
    InputNotFoundError,
    InputUnavailableError,
    InternalError,
    InterruptedJobError,
    LeaderError,
    MissingExtraError,
    RejectLimitError,
    ResumeError,
    StoreError,
    TokenizerError,
    TokenizerNotFoundError,
    TokenmillError,
)

if TYPE_CHECKING:
    from tokenmill.datasets.ledger.manifest import InputEntry, Manifest, PackingIdentity, TokenizerIdentity
    from tokenmill.datasets.ledger.receipt import Account, ShardEntry
    from tokenmill.datasets.reader.dataset import Dataset
    from tokenmill.datasets.reader.dataset import open_dataset as open  # noqa: A004
    from tokenmill.datasets.reader.feed import Feed, RowBatch
    from tokenmill.datasets.reader.mixture import Mixture
    from tokenmill.datasets.reader.rows import Rows
    from tokenmill.datasets.trace.history import History
    from tokenmill.datasets.trace.segment import Span, TracedRow
    from tokenmill.pipeline.extend import extend
    from tokenmill.pipeline.prepare import prepare
    from tokenmill.pipeline.remove import remove
    from tokenmill.pipeline.train import train
    from tokenmill.pipeline.transcode import transcode
    from tokenmill.settings.options import PrepareOptions, TrainOptions
    from tokenmill.tokenizer.batch import TokenBatch
    from tokenmill.tokenizer.engines.backend import Strategy
    from tokenmill.tokenizer.interop.hf import patch_transformers
    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.vocab.trim import trim

__all__ = [
    "Account",
    "ConfigError",
    "Dataset",
    "DatasetError",
    "Feed",
    "History",
    "InputEntry",
    "InputError",
    "InputNotFoundError",
    "InputUnavailableError",
    "InternalError",
    "InterruptedJobError",
    "LeaderError",
    "Manifest",
    "MissingExtraError",
    "Mixture",
    "PackingIdentity",
    "PrepareOptions",
    "RejectLimitError",
    "ResumeError",
    "RowBatch",
    "Rows",
    "ShardEntry",
    "Span",
    "StoreError",
    "Strategy",
    "TokenBatch",
    "Tokenizer",
    "TokenizerError",
    "TokenizerIdentity",
    "TokenizerNotFoundError",
    "TokenmillError",
    "TracedRow",
    "TrainOptions",
    "extend",
    "open",
    "patch_transformers",
    "prepare",
    "remove",
    "train",
    "transcode",
    "trim",
]

# Module -> the names that it is home to; `open` has another name there, since it is a builtin.
_HOMES = {
    "datasets.ledger.manifest": ("InputEntry", "Manifest", "PackingIdentity", "TokenizerIdentity"),
    "datasets.ledger.receipt": ("Account", "ShardEntry"),
    "datasets.reader.dataset": ("Dataset", "open"),
    "datasets.reader.feed": ("Feed", "RowBatch"),
    "datasets.reader.mixture": ("Mixture",),
    "datasets.reader.rows": ("Rows",),
    "datasets.trace.history": ("History",),
    "datasets.trace.segment": ("Span", "TracedRow"),
    "tokenizer.engines.backend": ("Strategy",),
    "tokenizer.batch": ("TokenBatch",),
    "tokenizer.interop.hf": ("patch_transformers",),
    "tokenizer.tokenizer": ("Tokenizer",),
    "pipeline.extend": ("extend",),
    "pipeline.prepare": ("prepare",),
    "pipeline.remove": ("remove",),
    "pipeline.train": ("train",),
    "pipeline.transcode": ("transcode",),
    "vocab.trim": ("trim",),
    "settings.options": ("PrepareOptions", "TrainOptions"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("tokenmill._core").__version__
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'tokenmill' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(f"tokenmill.{home}"), "open_dataset" if name == "open" else name)
    globals()[name] = value
    return value
