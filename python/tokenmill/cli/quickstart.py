"""`tokenmill quickstart`: all the steps on a bundled sample."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from shutil import which

import click

from tokenmill.base.platform import quote
from tokenmill.cli.options import examples, say
from tokenmill.errors import MissingExtraError


@click.command(epilog=examples("tokenmill quickstart", "tokenmill quickstart --output somewhere --json"))
@click.option("--output", default="quickstart", show_default=True, help="Where to put the results.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object; the steps go to stderr.")
def quickstart(output: str, *, as_json: bool) -> None:
    """Train a small tokenizer on a bundled sample, prepare the sample, open it and write a report."""
    from tokenmill.pipeline.quickstart import CONTEXT_LENGTH, quickstart

    done = quickstart(output, lambda line: say(line, err=as_json))
    if as_json:
        click.echo(json.dumps(asdict(done), indent=1, ensure_ascii=False, default=str))
        return
    counts = f"{done.documents:,} documents, {done.tokens:,} tokens, {done.rows:,} rows of {CONTEXT_LENGTH}"
    say(f"\n{counts}.")
    say(f"The first document begins: {done.first_document[:60]!r}")
    report = _spell_command("dataset", "report", str(done.dataset), "--open")
    say(f"\nThe report:      {report}     ({done.report})")
    for name, line in zip(("The playground:", ""), _list_serve_commands(output), strict=False):
        say(f"{name:<17}{line}")


def _list_serve_commands(output: str) -> list[str]:
    """The commands that show it all in a browser; installing the extra comes first, where it is missing."""
    from importlib.util import find_spec

    serve = _spell_command("serve", output, "--open")
    if all(find_spec(package) for package in ("starlette", "uvicorn")):
        return [serve]
    remedy = MissingExtraError.of("starlette", "web", "tokenmill serve").remedy
    return [remedy if _is_on_path() else f"{quote(_shorten_path(sys.executable))} -m {remedy}", serve]


def _spell_command(*words: str) -> str:
    """`_spell_command("serve")` -> `".venv/bin/tokenmill serve"`; the path only where it is needed."""
    if _is_on_path():
        own = "tokenmill"
    elif _is_script():
        own = quote(_shorten_path(sys.argv[0]))
    else:
        own = f"{quote(_shorten_path(sys.executable))} -m tokenmill"
    return " ".join([own, *map(quote, words)])


def _is_script() -> bool:
    """Whether this process was started as the command, not as `python -m tokenmill` or from Python."""
    return Path(sys.argv[0]).stem == "tokenmill"


def _is_on_path() -> bool:
    """Whether `tokenmill` alone starts this installation and no other."""
    if (found := which("tokenmill")) is None:
        return False
    script = Path(found).resolve()
    mine = Path(sys.argv[0]).resolve() if _is_script() else None
    # The interpreter of an environment may be a link to that of the system: compare the folders.
    return script == mine or script.parent == Path(sys.executable).parent.resolve()


def _shorten_path(program: str) -> str:
    """A program below the working directory as a path from there, which is shorter."""
    here = Path.cwd()
    path = Path(program).absolute()
    # A shell looks for a name without a slash along its path, not here.
    inside = path.is_relative_to(here) and path.parent != here
    return str(path.relative_to(here) if inside else path)
