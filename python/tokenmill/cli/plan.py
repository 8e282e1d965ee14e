"""`tokenmill plan` and `doctor`: estimate a job, check this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import Any

import click

from tokenmill.base import words
from tokenmill.cli.options import Value, command, json_option, say, show, use
from tokenmill.settings.resolve import SETTINGS_FILES
from tokenmill.settings.schema import Size

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@command(
    "tokenmill plan corpus/*.jsonl.zst --tokenizer my-tokenizer",
    "tokenmill plan corpus --tokenizer my-tokenizer --assume-size 825GB --machines 8",
    "tokenmill plan corpus --tokenizer my-tokenizer \\",
    "    --model config.json --budget-tokens 300e9",
    "tokenmill plan --model config.json --context-length 16384",
    "tokenmill plan mixture.yaml",
)
@click.argument("inputs", nargs=-1)
@use("tokenizer.tokenizer_name")
@use("source.text_field")
@click.option("--model", help="A model's JSON file (our keys, or an HF config.json), for training FLOPs.")
@use("packing.context_length", help="Tokens per sequence of --model.")
@click.option("--budget-tokens", type=float, help="Tokens to train on, e.g. 300e9.")
@click.option(
    "--assume-size", type=Value(Size), help="Assume that the corpus has this much text, e.g. 825GB."
)
@click.option(
    "--machines",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Machines like this one.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the sample.")
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
    """Sample INPUTS and estimate documents, tokens, disk, time and memory of preparing them.

    Without INPUTS, count the parameters, memory and FLOPs of a model. For a mixture's YAML file, show how
    many tokens each source contributes in each stage, and how often it repeats.
    """
    tokens = None if budget_tokens is None else int(budget_tokens)
    if not inputs:
        if model is None:
            raise click.UsageError("name INPUTS to plan for, or a --model")
        _show_cost(model, context_length, tokens, tokenizer, as_json=as_json)
    elif len(inputs) == 1 and inputs[0].endswith(SETTINGS_FILES):
        _show_mixture(inputs[0], as_json=as_json)
    elif tokenizer is None:
        raise click.UsageError("--tokenizer is needed to plan for INPUTS")
    else:
        from tokenmill.pipeline.estimate import estimate

        result = estimate(inputs, tokenizer, model=model, budget_tokens=tokens, **options)
        show(result, render(result), as_json=as_json)


def _show_cost(
    model: str, context_length: int | None, tokens: int | None, tokenizer: str | None, *, as_json: bool
) -> None:
    from tokenmill.report.cost import compute_cost, load_shape, render

    shape = load_shape(model)
    if tokenizer:
        from tokenmill.tokenizer.tokenizer import Tokenizer

        shape = replace(shape, vocab_size=Tokenizer.load(tokenizer).vocab_size)
    result = compute_cost(shape, context_length=context_length, tokens=tokens)
    show(result, render(result), as_json=as_json)


def _show_mixture(path: str, *, as_json: bool) -> None:
    from tokenmill.datasets.mixture import Mixture

    account = Mixture.load(path).account()
    lines = [f"{account['steps']:,} steps, {account['rows']:,} rows, {account['tokens']:,} tokens"]
    for nth, stage in enumerate(account["stages"]):
        lines.append(f"stage {nth}: from step {stage['first_step']:,}, {stage['rows']:,} rows")
        for name, part in stage["sources"].items():
            lines.append(f"  {name:<16} weight {part['weight']:<9.6g} {part['tokens']:>20,} tokens")
    lines.append("in total:")
    lines += [
        f"  {each['name']:<16} {each['tokens']:>20,} tokens, read {each['epochs']:.3f} times"
        for each in account["sources"]
    ]
    show(account, "\n".join(lines), as_json=as_json)


def render(result: dict[str, Any]) -> str:
    """Return an estimate for a terminal."""
    from tokenmill.base.words import amount, duration, number, size

    margin, share = "(all of it was counted)", result["margin_percent"]
    if share is not None:
        margin = f"± {share:.1f} %" if share >= 0.1 else "± less than 0.1 %"
    sample, inputs = result["sample"], result["inputs"]
    lines = [
        f"sample           {size(sample['text_bytes'])} in {amount(sample['blocks'], 'block')}",
        f"inputs           {amount(inputs['files'], 'file')}, {size(inputs['bytes_on_disk'])}",
        f"documents        {result['documents']:,}",
        f"text             {size(result['text_bytes'])}",
        f"tokens           {result['tokens']:,}  {margin}",
        f"bytes per token  {result['bytes_per_token']:.3f}",
        *(f"disk, {name:<10} {size(value)}" for name, value in result["disk_bytes"].items()),
        f"time here        {duration(result['seconds_here'])}  ({size(result['bytes_per_second_here'])}/s)",
    ]
    if result["machines"] > 1:
        spread = duration(result["seconds_on_machines"])
        lines.append(f"time on {result['machines']:<8} {spread}  (machines like this one)")
    lines.append(f"memory           {size(result['memory_budget'])} budget, whatever the corpus size")
    if "epochs" in result:
        lines.append(f"epochs           {result['epochs']:.3f} for {number(result['budget_tokens'])} tokens")
    if "training" in result:
        training = result["training"]
        lines.append(f"training         {training['flops']:.4g} FLOPs, {training['parameters']:,} parameters")
        if not training["vocabulary_matches"]:
            lines.append("warning          the model's vocabulary is smaller than the tokenizer's")
    return "\n".join(lines)


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
    if as_json:
        figures = {"version": 1, "status": worst, "checks": [asdict(check) for check in checks]}
        click.echo(json.dumps(figures, indent=2, ensure_ascii=False))
        sys.exit(int(worst == "problem"))
    for check in checks:
        status = click.style(f"{check.status:8}", fg=_COLOURS[check.status])
        say(f"{status} {check.name:13} {check.found}")
        if check.fix:
            say(f"{'':22} fix: {check.fix}")
    count = sum(check.status == "problem" for check in checks)
    say(f"\n{words.amount(count, 'problem') if count else 'no problems found'}")
    sys.exit(int(worst == "problem"))
