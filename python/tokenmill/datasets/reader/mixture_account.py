"""The account of a mixture: what each source gives in each stage, and how often it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenmill.datasets.reader.mixture import Mixture


def account_for(mixture: Mixture) -> dict[str, Any]:
    """Rows, tokens and epochs of every source, as plain JSON values; padding counts as tokens."""
    length, each = len(mixture), mixture.rows_per_step
    bounds = [*(min(stage.start, length) for stage in mixture.stages), length]
    counts = [mixture.count(bound) for bound in bounds]
    stages = [
        {
            "first_step": stage.start // each,
            "warm_in": stage.change // each,
            "rows": bounds[place + 1] - bounds[place],
        }
        for place, stage in enumerate(mixture.stages)
    ]
    return {
        "rows": length,
        "steps": length // each,
        "tokens": length * mixture.context_length,
        "stages": stages,
        "sources": [_account_for_source(mixture, nth, counts) for nth in range(len(mixture.sources))],
    }


def _account_for_source(mixture: Mixture, nth: int, counts: list[list[int]]) -> dict[str, Any]:
    rows, given = mixture.sources[nth], counts[-1][nth]
    stages = []
    for place, stage in enumerate(mixture.stages):
        some = counts[place + 1][nth] - counts[place][nth]
        weight = float(stage.weight(nth))
        stages.append({"weight": weight, "rows": some, "tokens": some * mixture.context_length})
    return {
        "name": mixture.names[nth],
        "dataset": rows.dataset.address,
        "rows": given,
        "tokens": given * mixture.context_length,
        "rows_there": len(rows),
        "epochs": given / len(rows),
        "stages": stages,
    }
