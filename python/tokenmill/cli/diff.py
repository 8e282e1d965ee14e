"""`tokenmill dataset diff`: what differs between two datasets or locks."""

from __future__ import annotations

import json
from typing import Any

import click


@click.command(
    epilog="""\b
Examples:
  tokenmill dataset diff out out-2
  tokenmill dataset diff old.lock new.lock --json"""
)
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(before: str, after: str, *, as_json: bool) -> None:
    """Compare two datasets or locks: settings, inputs, documents added and gone, tokens by source."""
    from tokenmill.report.difference import find_differences

    found = find_differences(before, after)
    if as_json:
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    if found["same"]:
        click.echo("the same bytes in every shard")
    click.echo(f"documents: {found['documents'][0]:,} -> {found['documents'][1]:,}")
    click.echo(f"tokens: {found['tokens'][0]:,} -> {found['tokens'][1]:,}")
    if found["tokenizer"]:
        click.echo("tokenizer: {} -> {}".format(*(each["name"] for each in found["tokenizer"])))
    for title in ("settings", "versions"):
        for key, (old, new) in found[title].items():
            click.echo(f"{title}: {key} {old!r} -> {new!r}")
    for title, names in found["inputs"].items():
        for name in names:
            click.echo(f"inputs: {name} {title}")
    for name, (old, new) in found["sources"].items():
        click.echo(f"source: {name}: {_format_counts(old)} -> {_format_counts(new)}")
    _show_documents(found["changes"])


def _format_counts(counts: Any) -> str:
    return "nothing" if counts is None else f"{counts[0]:,} documents, {counts[1]:,} tokens"


def _show_documents(changes: dict[str, Any]) -> None:
    if "unknown" in changes:
        click.echo(f"documents added and gone: not known, {changes['unknown']}")
        return
    click.echo(f"documents: {changes['gone']:,} gone, {changes['added']:,} added")
    for title in ("gone", "added"):
        for each in changes[f"first_{title}"]:
            origin = each["origin"] or {}
            where = f" ({origin['input']} row {origin['row']})" if "input" in origin else ""
            click.echo(f"  {title}: document {each['document']:,}{where}")
