"""The cost of a model as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.report.cost.cost import ModelCost


def render(result: ModelCost) -> str:
    """The tables that `tokenmill plan --model` prints."""
    data = result.to_dict()
    sections = [
        _format_parts("Parameters", data["parameters_by_component"], data["parameters"]),
        "Memory\n"
        + _align([(name, f"{size / 2**30:.2f} GiB") for name, size in data["memory_bytes"].items()]),
        _format_parts(
            f"Forward FLOPs for {result.context_length:,} tokens",
            data["forward_flops_by_component"],
            data["forward_flops"],
        ),
        f"Training costs {data['training_flops_per_token']:,} FLOPs per token (three forward passes).",
    ]
    if result.training_flops is not None:
        sections.append(f"Training on {result.tokens:,} tokens costs {result.training_flops:.4g} FLOPs.")
    rows = [
        (
            f"{row['vocab_size']:,}",
            f"{row['embedding_parameters']:,}",
            f"{row['embedding_percent']:.2f} %",
            f"{row['forward_flops_per_token']:,}",
            f"{row['break_even_percent']:+.2f} %",
        )
        for row in data["vocabulary"]
    ]
    header = (
        "vocabulary",
        "embedding parameters",
        "of all",
        "FLOPs per token",
        "bytes per token to break even",
    )
    sections.append("What a larger vocabulary costs and saves\n" + _align([header, *rows]))
    return "\n\n".join(sections)


def _format_parts(title: str, parts: dict[str, Any], total: int) -> str:
    rows = [(name, f"{part['value']:,}", f"{part['percent']:.2f} %") for name, part in parts.items()]
    return title + "\n" + _align([*rows, ("total", f"{total:,}", "")])


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        right = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join(["", first.ljust(widths[0]), *right]).rstrip())
    return "\n".join(lines)
