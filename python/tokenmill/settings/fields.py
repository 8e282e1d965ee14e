"""The kinds of value that settings take: sizes such as `512MiB`, lists that may be one item, levels."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Annotated, Any, Literal

from tokenmill.base.sizes import parse_size
from tokenmill.settings.kinds import Limit, MismatchError, Read


def read_size(value: Any) -> Any:
    """`"512MiB"` -> `536870912`; `"2GB"` -> `2000000000`; anything but a string is left as it is."""
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except ValueError:
        raise MismatchError("a size in bytes, such as 512MiB or 2GB") from None


def _list_names(value: Any) -> Any:
    """One item where a list is expected is a list of one; a path is its text."""
    if isinstance(value, str | PathLike):
        value = (value,)
    if not isinstance(value, list | tuple):
        return value
    return [fspath(item) if isinstance(item, PathLike) else item for item in value]


def _list_weighted(value: Any) -> Any:
    """The same; a path with a weight is written as on the command line, `a.parquet:2.0`."""
    if not isinstance(value, list | tuple):
        return _list_names(value)
    return _list_names([f"{item[0]}:{item[1]}" if isinstance(item, tuple) else item for item in value])


def _read_switch(value: Any) -> Any:
    """`--eos false` means no token, not a token of that name."""
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def _raise_case(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def read_share(value: Any) -> Any:
    """`"0.5%"` -> `0.005`; anything else is left as it is."""
    if not isinstance(value, str) or not value.strip().endswith("%"):
        return value
    try:
        return float(value.strip()[:-1]) / 100
    except ValueError:
        raise MismatchError("a share, such as 0.5% or 0.005") from None


Positive = Annotated[int, Limit(">", 0)]
NonNegative = Annotated[int, Limit("≥", 0)]
Seconds = Annotated[float, Limit(">", 0)]
Fraction = Annotated[float, Limit("≥", 0)]
Share = Annotated[float, Limit(">", 0), Read(read_share, r"^\s*\d[\d.]*\s*%?\s*$")]
Size = Annotated[int, Limit(">", 0), Read(read_size, r"^\s*\d")]
Names = Annotated[tuple[str, ...], Read(_list_names, "")]
WeightedNames = Annotated[tuple[str, ...], Read(_list_weighted, "")]
Marker = Annotated[str | int | bool | None, Read(_read_switch)]
Level = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], Read(_raise_case)]
ExecutorName = Literal["local", "ray"]
OnError = Literal["fail", "skip", "replace"]
Format = Literal["auto", "txt", "jsonl", "json", "csv", "tsv", "parquet", "arrow", "hf"]
OutputFormat = Literal[
    "arrow", "datatrove", "litdata", "mds", "megatron", "npy", "olmo", "parquet", "tokenmill"
]
Column = Literal["attention_mask", "document_ids", "labels", "loss_mask", "position_ids"]
PackingMode = Literal["stream", "concat", "window", "bestfit", "pad"]
TooLong = Literal["drop", "truncate", "keep-last"]
TieBreak = Literal["huggingface", "lexicographic"]
SaveFormat = Literal["hf", "tiktoken", "vocab-merges", "minbpe"]
SaveFormats = Annotated[tuple[SaveFormat | Literal["all"], ...], Read(_list_names, "")]
