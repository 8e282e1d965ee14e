"""The kinds of value that settings take: sizes such as `512MiB`, lists that may be one item, levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from tokenmill.base.folders import list_modules
from tokenmill.base.sizes import bytes_of
from tokenmill.settings.kinds import Above, AtLeast, MismatchError, Read


def parse_size(value: Any) -> Any:
    """`"512MiB"` -> `536870912`; `"2GB"` -> `2000000000`; anything but a string is left as it is."""
    if not isinstance(value, str):
        return value
    try:
        return bytes_of(value)
    except ValueError:
        raise MismatchError("a size in bytes, such as 512MiB or 2GB") from None


def _listed(value: Any) -> Any:
    """One item where a list is expected is a list of one."""
    return (value,) if isinstance(value, str) else value


def _switch(value: Any) -> Any:
    """`--eos false` means no token, not a token of that name."""
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


Positive = Annotated[int, Above(0)]
NonNegative = Annotated[int, AtLeast(0)]
Seconds = Annotated[float, Above(0)]
Size = Annotated[int, Above(0), Read(parse_size, r"^\s*\d")]
Names = Annotated[tuple[str, ...], Read(_listed, "")]
Marker = Annotated[str | int | bool | None, Read(_switch)]
Level = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], Read(_upper)]
ExecutorName = Literal["local", "ray"]
OnError = Literal["fail", "skip", "replace"]
Format = Literal["auto", "txt", "jsonl", "json", "csv", "tsv", "parquet", "arrow", "hf"]
if TYPE_CHECKING:
    OutputFormat = str
    Column = str
else:
    OutputFormat = Literal[list_modules("datasets/formats")]
    Column = Literal[list_modules("datasets/columns")]
PackingMode = Literal["stream", "concat", "window", "bestfit", "pad"]
