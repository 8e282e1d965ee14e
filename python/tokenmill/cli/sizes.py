"""The type of a flag that takes a size, such as `--memory-budget 4GB`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Integer = click.ParamType[int]
    _Float = click.ParamType[float]
else:
    # Only newer releases of click let it be subscripted.
    _Integer = _Float = click.ParamType


class Size(_Integer):
    """`4GB`, `512MiB` or a number of bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """`"4GB"` -> `4000000000`."""
        from tokenmill.base.sizes import parse_size

        try:
            return value if isinstance(value, int) else parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Count(_Integer):
    """`16k`, `16000` or `1M`."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """`"16k"` -> `16000`."""
        from tokenmill.base.sizes import parse_size

        try:
            return parse_size(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a number; expected something like 16000 or 16k", param, ctx)


class Share(_Float):
    """`0.1%` or `0.001`."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """`"0.1%"` -> `0.001`."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is not a share; expected something like 0.1% or 0.001", param, ctx)
        return share
