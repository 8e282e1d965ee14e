"""The cost of a model as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tokenmill.insight.cost.cost import ModelCost


def render(result: ModelCost) -> str:
    """The tables that `tokenmill plan --model` prints."""
    data = result.to_dict()
    sections = [
        _format_section(
            "Parameters",
            [
                (name, f"{part['value']:,}", f"{part['percent']:.2f} %")
                for name, part in data["parameters_by_component"].items()
            ],
            ("total", f"{data['parameters']:,}", ""),
        ),
        _format_section(
            "Memory", [(name, f"{size / 2**30:.2f} GiB", "") for name, size in data["memory_bytes"].items()]
        ),
        _format_section(
            f"Forward FLOPs for {result.context_length:,} tokens",
            [
                (name, f"{part['value']:,}", f"{part['percent']:.2f} %")
                for name, part in data["forward_flops_by_component"].items()
            ],
            ("total", f"{data['forward_flops']:,}", ""),
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


def _format_section(title: str, rows: Iterable[Sequence[str]], total: Sequence[str] | None = None) -> str:
    return title + "\n" + _align([*rows, *([total] if total else [])])


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)
