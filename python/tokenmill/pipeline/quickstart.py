"""Train a small tokenizer on a bundled sample, prepare the sample with it, and report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.pipeline.prepare import prepare
from tokenmill.pipeline.train import train
from tokenmill.report.report import REPORT_HTML

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE = Path(__file__).parents[1] / "data" / "sample.jsonl"
VOCAB_SIZE = 2000
CONTEXT_LENGTH = 256


@dataclass(frozen=True)
class Quickstart:
    """The results and their locations."""

    tokenizer: Path
    dataset: Path
    report: Path
    documents: int
    tokens: int
    rows: int
    first_document: str


def quickstart(output: str | Path, say: Callable[[str], None] = print) -> Quickstart:
    """Write a tokenizer, a dataset and a report under the directory `output`."""
    root = Path(output)
    tokenizer_dir, dataset_dir = root / "tokenizer", root / "dataset"
    say(f"1/4  train a vocabulary of {VOCAB_SIZE:,} on {SAMPLE.name}")
    tokenizer = train([str(SAMPLE)], VOCAB_SIZE, output=tokenizer_dir, verbose_level="WARNING")
    say(f"2/4  prepare it into {dataset_dir}")
    dataset = prepare(
        inputs=[str(SAMPLE)],
        tokenizer=str(tokenizer_dir),
        output=str(dataset_dir),
        # A plain install would begin with a warning that there is no Hugging Face to compare with.
        verbose_level="ERROR",
        show_progress=False,
        provenance=True,
        id_field="id",
    )
    say("3/4  open it and cut rows")
    rows = dataset.rows(context_length=CONTEXT_LENGTH)
    first = tokenizer.decode(dataset[0].tolist(), skip_special_tokens=True)
    say("4/4  read the report")
    return Quickstart(
        tokenizer_dir,
        dataset_dir,
        dataset_dir / REPORT_HTML,
        len(dataset),
        dataset.num_tokens,
        len(rows),
        first,
    )
