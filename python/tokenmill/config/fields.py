"""The kinds of value that settings take: sizes such as `512MiB`, lists that may be one item, levels."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from tokenmill.config.sizes import bytes_of


def parse_size(value: Any) -> Any:
    """`"512MiB"` -> `536870912`; `"2GB"` -> `2000000000`; anything but a string is left as it is."""
    if not isinstance(value, str):
        return value
    try:
        return bytes_of(value)
    except ValueError:
        raise PydanticCustomError("size", "expected a size such as 512MiB or 2GB") from None


def _whole(value: Any) -> Any:
    """Keep `true` from passing as the number 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("whole", "expected a whole number")
    return value


def _listed(value: Any) -> Any:
    """One item where a list is expected is a list of one."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _switch(value: Any) -> Any:
    """`--eos false` means no token, not a token of that name."""
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


# The bound stands next to the type, so that JSON Schema shows it as its own word.
Positive = Annotated[int, Field(gt=0), BeforeValidator(_whole)]
NonNegative = Annotated[int, Field(ge=0), BeforeValidator(_whole)]
Seconds = Annotated[float, Field(gt=0), BeforeValidator(_whole)]
Size = Annotated[
    int,
    Field(gt=0),
    BeforeValidator(_whole),
    BeforeValidator(parse_size),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string", "pattern": r"^\s*\d"}]}
    ),
]
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
]
Marker = Annotated[str | int | bool | None, BeforeValidator(_switch)]
Level = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)]
OnError = Literal["fail", "skip", "replace"]
Format = Literal["auto", "txt", "jsonl", "json", "csv", "tsv", "parquet", "arrow", "hf"]
OutputFormat = Literal["tokenmill", "megatron", "arrow", "parquet", "npy", "mds", "litdata"]
PackingMode = Literal["stream", "concat", "window", "bestfit", "pad"]
Column = Literal["attention_mask", "labels", "position_ids", "document_ids"]
