"""Writes `report.json` and `report.html` into the directory of a finished run, and compares two runs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import publish_bytes, readable_json
from tokenmill.datasets.ledger.manifest import PLAN
from tokenmill.errors import DatasetError, TokenmillError
from tokenmill.report.page import page, paragraph, section, table
from tokenmill.report.report_data import collect_dataset
from tokenmill.report.report_page import render_dataset
from tokenmill.sources.stores import is_remote
from tokenmill.training.output import TRAINING

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger("tokenmill.report")
REPORT_JSON, REPORT_HTML = "report.json", "report.html"


def write_report(directory: str | Path, tokenizer: Any = None) -> Path:
    """`write_report(DIR)` -> DIR/report.html; both files appear whole or not at all.

    `tokenizer` saves loading the dataset's own again if the caller has it. Raises `DatasetError` if the
    directory holds neither a dataset nor a trained tokenizer.
    """
    root = Path(directory)
    data = collect(root, tokenizer)
    if data["kind"] == "train":
        from tokenmill.report.training_report import render_training

        html = render_training(data)
    else:
        html = render_dataset(data)
    publish_bytes(root / REPORT_JSON, readable_json(data))
    publish_bytes(root / REPORT_HTML, html.encode("utf-8", "backslashreplace"))
    return root / REPORT_HTML


def publish_report(location: str | Path, tokenizer: Any = None) -> str:
    """Write the report where the dataset is, in a directory or an object store; returns its address."""
    if is_remote(location):
        from tokenmill.report.remote_report import report_remote

        return report_remote(str(location), tokenizer)
    return str(write_report(location, tokenizer))


def report_if_possible(location: str | Path, tokenizer: Any = None) -> None:
    """Write the report of a finished job; a full disk or a foreign format is only worth a warning."""
    try:
        publish_report(location, tokenizer)
    except (OSError, TokenmillError) as error:
        logger.warning("no report was written: %s", error)


def collect(root: Path, tokenizer: Any = None) -> dict[str, Any]:
    """The report of whatever the directory holds: a dataset or a trained tokenizer."""
    if (root / TRAINING).exists() and not (root / PLAN).exists():
        from tokenmill.report.training_report import collect_training

        return collect_training(root)
    if not root.is_dir():
        raise DatasetError(f"{root}: no such directory; give the output directory of a prepare or train run")
    return collect_dataset(root, tokenizer)


def write_comparison(first: str | Path, second: str | Path, output: str | Path) -> Path:
    """Two runs side by side, each figure with its change, as one page."""
    data = [collect(Path(path)) for path in (first, second)]
    rows = list(_compare(data[0], data[1]))
    body = [
        paragraph(f"A: {first}    B: {second}"),
        section("Figures", table(("figure", "A", "B", "B against A"), rows, folded=False)),
    ]
    output = Path(output)
    publish_bytes(output, page("Two runs compared", body).encode("utf-8", "backslashreplace"))
    return output


def compare(first: str | Path, second: str | Path) -> list[dict[str, Any]]:
    """The same comparison as data."""
    rows = _compare(collect(Path(first)), collect(Path(second)))
    return [dict(zip(("figure", "a", "b", "change"), row, strict=True)) for row in rows]


def _compare(a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, Any, Any, str]]:
    """Numbers that both reports have at the same place, and words that differ; lists are left out."""
    flat_a, flat_b = _flatten(a), _flatten(b)
    for name, left in flat_a.items():
        if name not in flat_b:
            continue
        right = flat_b[name]
        if isinstance(left, int | float) and isinstance(right, int | float) and not isinstance(left, bool):
            yield (
                name,
                left,
                right,
                f"{100 * (right / left - 1):+.2f} %" if left else ("same" if right == left else "new"),
            )
        elif left != right:
            yield name, left, right, "differs"


def _flatten(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            found |= _flatten(item, f"{prefix}{key}.")
        elif not isinstance(item, list) and item is not None:
            found[f"{prefix}{key}"] = item
    return found
