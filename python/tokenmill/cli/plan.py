"""`tokenmill plan` and `doctor`: estimate a job, check this machine."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from typing import Any

import click

from tokenmill.base import words
from tokenmill.cli.options import Value, command, json_option, show, use
from tokenmill.settings.resolve import SETTINGS_FILES
from tokenmill.settings.schema import Size

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@command(
    "tokenmill plan corpus/*.jsonl.zst --tokenizer my-tokenizer",
    "tokenmill plan corpus --tokenizer my-tokenizer --assume-size 825GB",
    "tokenmill plan corpus --tokenizer my-tokenizer --model config.json",
    "tokenmill plan --model config.json --context-length 16384 --budget-tokens 300e9",
    "tokenmill plan mixture.yaml",
)
@click.argument("inputs", nargs=-1)
@use("tokenizer.tokenizer_name")
@use("source.text_field")
@click.option("--model", help="A model's JSON file (our keys, or an HF config.json), for training FLOPs.")
@use("packing.context_length", help="Tokens per sequence of --model.")
@click.option("--budget-tokens", type=float, help="Tokens to train --model on, e.g. 300e9.")
@click.option(
    "--assume-size", type=Value(Size), help="Assume that the corpus has this much text, e.g. 825GB."
)
@json_option
def plan(
    inputs: tuple[str, ...],
    *,
    tokenizer: str | None,
    model: str | None,
    context_length: int | None,
    budget_tokens: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Sample INPUTS and estimate documents, tokens, disk and time of preparing them.

    With --model, count the parameters, memory and FLOPs of a model, too. For a mixture's YAML file, show how
    many tokens each source contributes in each stage, and how often it repeats.
    """
    from tokenmill.report import cost
    from tokenmill.tokenizer.tokenizer import Tokenizer

    if len(inputs) == 1 and inputs[0].endswith(SETTINGS_FILES):
        _show_mixture(inputs[0], as_json=as_json)
        return
    if not inputs and model is None:
        raise click.UsageError("name INPUTS to plan for, or a --model")
    if inputs and tokenizer is None:
        raise click.UsageError("--tokenizer is needed to plan for INPUTS")
    loaded = None if tokenizer is None else Tokenizer.load(tokenizer)
    tokens = None if budget_tokens is None else int(budget_tokens)
    figures: dict[str, Any] = {}
    sections = []
    if inputs and loaded is not None:
        from tokenmill.pipeline.estimate import estimate

        figures = estimate(inputs, loaded, **options)
        sections.append(render(figures))
        tokens = max(1, figures["tokens"]) if tokens is None else tokens
    if model is not None:
        shape = cost.load_shape(model)
        if loaded is not None:
            shape = replace(shape, vocab_size=loaded.vocab_size)
        costs = cost.compute_cost(shape, context_length=context_length, tokens=tokens)
        sections.append(cost.render(costs))
        figures = figures | {"model": costs} if figures else costs
    show(figures, "\n\n".join(sections), as_json=as_json)


def _show_mixture(path: str, *, as_json: bool) -> None:
    from tokenmill.datasets.mixture import Mixture

    account = Mixture.load(path).account()
    lines = [f"{account['steps']:,} steps, {account['rows']:,} rows, {account['tokens']:,} tokens"]
    for nth, stage in enumerate(account["stages"]):
        lines.append(f"stage {nth}: from step {stage['first_step']:,}, {stage['rows']:,} rows")
        for name, part in stage["sources"].items():
            lines.append(f"  {name}: weight {part['weight']:.6g}, {part['tokens']:,} tokens")
    for each in account["sources"]:
        epochs = "a stream" if each["epochs"] is None else f"read {each['epochs']:.3f} times"
        lines.append(f"{each['name']}: {each['tokens']:,} tokens, {epochs}")
    show(account, "\n".join(lines), as_json=as_json)


def render(figures: dict[str, Any]) -> str:
    """Return an estimate for a terminal."""
    share = figures["margin_percent"]
    margin = "(all of it was counted)" if share is None else f"± {max(share, 0.1):.1f} %"
    rows = {
        "inputs": f"{words.amount(figures['files'], 'file')}, {words.size(figures['bytes_on_disk'])}",
        "sample": words.size(figures["sample_bytes"]),
        "documents": f"{figures['documents']:,}",
        "text": words.size(figures["text_bytes"]),
        "tokens": f"{figures['tokens']:,}  {margin}",
        "bytes per token": f"{figures['bytes_per_token']:.3f}",
        "disk": words.size(figures["disk_bytes"]),
        "time here": words.duration(figures["seconds"]),
    }
    return "\n".join(f"{name:<16} {value}" for name, value in rows.items())


@command(
    "tokenmill doctor",
    "tokenmill doctor --tokenizer path/to/tokenizer --data 'data/*.jsonl' --output tokens",
    "tokenmill doctor --golden golden.json",
    "tokenmill doctor --json | python -m json.tool",
)
@use("tokenizer.tokenizer_name", help="A tokenizer to load and compare.")
@click.option("--data", multiple=True, metavar="D", help="Input files, globs or directories.")
@use("output.path", help="The output directory of a job.")
@click.option("--golden", help="Check ids that `tokenizer card --golden` wrote.")
@json_option
def doctor(
    tokenizer: str | None, data: tuple[str, ...], output: str | None, *, golden: str | None, as_json: bool
) -> None:
    """Check this machine and setup. Exit with 1 if there is a problem."""
    from tokenmill.report.doctor import examine

    checks = examine(tokenizer, data, output, golden=golden)
    worst = max((check.status for check in checks), key=list(_COLOURS).index)
    lines = []
    for check in checks:
        lines.append(
            f"{click.style(f'{check.status:8}', fg=_COLOURS[check.status])} {check.name:13} {check.found}"
        )
        lines += [f"{'':22} fix: {check.fix}"] if check.fix else []
    count = sum(check.status == "problem" for check in checks)
    lines.append(f"\n{words.amount(count, 'problem') if count else 'no problems found'}")
    figures = {"version": 1, "status": worst, "checks": [asdict(check) for check in checks]}
    show(figures, "\n".join(lines), as_json=as_json)
    sys.exit(int(worst == "problem"))
