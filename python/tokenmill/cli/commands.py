"""The group of all commands. Each is one file, imported only when it is called."""

from __future__ import annotations

from importlib import import_module

import click

# command -> one line of help; the code is in cli/<command with _ for ->.py as `command`.
COMMANDS = {
    "quickstart": "Train, prepare, open and report on a bundled sample.",
    "train": "Train a byte-level BPE tokenizer.",
    "prepare": "Turn raw text into a training-ready dataset.",
    "encode": "Text to token ids.",
    "decode": "Token ids to text.",
    "inspect": "Look at a tokenizer or a dataset.",
    "convert": "Save a tokenizer in another format.",
    "convert-dataset": "Rewrite a dataset in another format.",
    "verify": "Check a dataset: hashes, counts, bounds, a re-encoded sample.",
    "commit": "Publish the manifest of a job whose units are all done.",
    "plan": "Tokens, disk, time and FLOPs before a byte is written.",
    "account": "Parameters, memory and FLOPs of a transformer.",
    "doctor": "Check this machine and set-up, and say what to fix.",
    "env": "Print export lines for this machine.",
    "config": "Write, explain and show settings.",
    "bench": "This machine, your tokenizer, your files, beside the peers installed.",
    "report": "Write the report of a run again, or compare two.",
    "serve": "Open the playground and the runs in a browser.",
}


class LazyGroup(click.Group):
    """Lists every command from `COMMANDS`, and imports one only when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names, in the order in which a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command object, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"tokenmill.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The table of commands, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tokenmill")
def cli() -> None:
    """Turn raw text into training-ready tokens."""
