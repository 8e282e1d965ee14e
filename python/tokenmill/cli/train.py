"""`tokenmill train`: texts to a tokenizer."""

from __future__ import annotations

from typing import Any

import click

from tokenmill.cli.options import SettingsCommand, add_settings, command, pick_given, show, take_inputs
from tokenmill.errors import ConfigError


@command(
    "tokenmill train 'corpus/*.txt' --vocab-size 32000 --output my-tokenizer",
    "tokenmill train data.jsonl.zst --vocab-size 50257 --pattern cl100k -o out",
    "tokenmill train chats.txt --special-token '<|im_start|>' \\",
    "    --special-token '<|im_end|>' -o out-chat",
    "tokenmill train data.parquet --save-counts counts.parquet -o out-32k",
    "tokenmill train --counts ko.parquet:2.0 --counts en.parquet \\",
    "    --vocab-size 64000 -o out-mixed",
    "tokenmill train --config job.yaml",
    cls=SettingsCommand,
)
@take_inputs
@click.option("--no-special", is_flag=True, help="Train without special tokens.")
@click.option("--quiet", is_flag=True, help="Print no progress and no notes.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@add_settings("train", "training", "output", "source", "execution")
def train(
    config_file: str | None,
    *,
    no_special: bool,
    quiet: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Train a byte-level BPE tokenizer on files, globs, directories or saved counts."""
    from tokenmill.pipeline.train import run
    from tokenmill.settings.resolve import resolve
    from tokenmill.training.merging import format_lines

    flags = pick_given(values)
    if no_special:
        if "training.special_tokens" in flags:
            raise ConfigError("--no-special and --special-token are both given; keep one of them")
        flags["training.special_tokens"] = ()
    if quiet:
        flags = {"execution.show_progress": False, "execution.verbose_level": "WARNING"} | flags
    resolved = resolve(config_file, flags, job="train")
    if (output := resolved.config.output.path) is None:
        raise ConfigError("no output directory: give --output DIR")
    trained = run(resolved)
    lines = [*format_lines(trained.summary), f"saved           {output}"]
    show(trained.summary, "\n".join(lines), as_json=as_json)
