"""The type of a flag that takes a size, such as `--memory-budget 4GB`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Integer = click.ParamType[int]
else:
    # Only newer releases of click let it be subscripted.
    _Integer = click.ParamType


class Size(_Integer):
    """`4GB`, `512MiB` or a number of bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """`"4GB"` -> `4000000000`."""
        from tokenmill.base.sizes import bytes_of

        try:
            return value if isinstance(value, int) else bytes_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
