"""`tokenmill plan`: tokens, disk, time and FLOPs before a byte is written."""

from __future__ import annotations

import json
from typing import Any

import click

from tokenmill.cli.account import show_cost
from tokenmill.cli.say import say
from tokenmill.cli.sizes import Size
from tokenmill.settings.names import SETTINGS_FILES

EXAMPLES = """\b
Examples:
  tokenmill plan corpus/*.jsonl.zst --tokenizer my-tokenizer
  tokenmill plan corpus --tokenizer my-tokenizer --assume-size 825GB \\
      --machines 8
  tokenmill plan corpus --tokenizer my-tokenizer \\
      --model examples/gpt2-xl.json --budget-tokens 300e9
  tokenmill plan --model examples/gpt2-xl.json --context-length 16384
  tokenmill plan mixture.yaml
"""


@click.command(epilog=EXAMPLES)
@click.argument("inputs", nargs=-1)
@click.option("--tokenizer", help="A directory, a file or a hub id.")
@click.option("--text-field", help="The column that holds the text.  [default: detected]")
@click.option("--model", help="A model's JSON file (our keys, or an HF config.json), for training FLOPs.")
@click.option("--context-length", type=int, help="For a model alone: tokens per sequence.")
@click.option("--budget-tokens", type=float, help="Tokens to train on, e.g. 300e9.")
@click.option("--assume-size", type=Size(), help="Assume that the corpus has this much text, e.g. 825GB.")
@click.option(
    "--machines", type=click.IntRange(1), default=1, show_default=True, help="Machines like this one."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which sample to take.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    inputs: tuple[str, ...],
    tokenizer: str | None,
    text_field: str | None,
    model: str | None,
    context_length: int | None,
    budget_tokens: float | None,
    assume_size: int | None,
    machines: int,
    seed: int,
    as_json: bool,
) -> None:
    """Sample INPUTS and estimate what preparing them takes: documents, tokens, disk, time, memory.

    Without INPUTS, count the parameters, memory and FLOPs of a model. For a mixture's YAML file, say how many
    tokens each source gives in each stage, and how often it repeats.
    """
    if not inputs:
        if model is None:
            raise click.UsageError("name INPUTS to plan for, or a --model")
        show_cost(model, context_length, budget_tokens, tokenizer, as_json=as_json)
        return
    if len(inputs) == 1 and inputs[0].endswith(SETTINGS_FILES):
        _show_mixture(inputs[0], as_json=as_json)
        return
    if tokenizer is None:
        raise click.UsageError("--tokenizer is needed to plan for INPUTS")
    from tokenmill.pipeline.estimate import estimate

    result = estimate(
        inputs,
        tokenizer,
        assume_size=assume_size,
        machines=machines,
        model=model,
        budget_tokens=None if budget_tokens is None else int(budget_tokens),
        seed=seed,
        text_field=text_field,
    )
    click.echo(json.dumps(result, indent=2) if as_json else render(result))


def _show_mixture(path: str, *, as_json: bool) -> None:
    from tokenmill.datasets.reader.mixture import Mixture

    account = Mixture.load(path).account()
    if as_json:
        click.echo(json.dumps(account, indent=2, ensure_ascii=False))
        return
    say(f"{account['steps']:,} steps, {account['rows']:,} rows, {account['tokens']:,} tokens")
    for nth, stage in enumerate(account["stages"]):
        say(f"stage {nth}: from step {stage['first_step']:,}, {stage['rows']:,} rows")
        for each in account["sources"]:
            part = each["stages"][nth]
            say(f"  {each['name']:<16} weight {part['weight']:<9.6g} {part['tokens']:>20,} tokens")
    say("in total:")
    for each in account["sources"]:
        say(f"  {each['name']:<16} {each['tokens']:>20,} tokens, read {each['epochs']:.3f} times")


def render(result: dict[str, Any]) -> str:
    """The estimate for a terminal."""
    from tokenmill.base.console.words import amount, duration, number, size

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
