"""The `tokenmill` command. A subcommand is imported only when it is called."""

from __future__ import annotations

import gc
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import PurePath

import click

from tokenmill.base import logs
from tokenmill.base.words import find_similar
from tokenmill.errors import EXIT_FAILED, EXIT_RESUMABLE, TokenmillError

# Group -> command -> (its module here, and one line of help).
COMMANDS = {
    "": {
        "quickstart": ("quickstart", "Train, prepare, open and report on a bundled sample."),
        "train": ("train", "Train a byte-level BPE tokenizer."),
        "prepare": ("prepare", "Turn raw text into a training-ready dataset."),
        "encode": ("tokenizer", "Encode text to token ids."),
        "decode": ("tokenizer", "Decode token ids to text."),
        "inspect": ("inspect", "Show a tokenizer or a dataset."),
        "plan": ("plan", "Estimate tokens, disk, time and FLOPs before a job."),
        "doctor": ("plan", "Check this machine and setup, and print fixes."),
        "serve": ("serve", "Open the playground and the runs in a browser."),
        "config": ("", "Write, explain and show settings; print export lines for a shell."),
        "tokenizer": ("", "Convert, extend, trim, graft and measure tokenizers."),
        "dataset": ("", "Verify, convert, push, blend, trace, edit and rebuild datasets."),
    },
    "config": {
        "init": ("config", "Write a commented settings file."),
        "show": ("config", "Print each value and its origin."),
        "env": ("config", "Print export lines for this machine."),
    },
    "tokenizer": {
        "convert": ("tokenizer", "Save a tokenizer in another format."),
        "extend": ("tokenizer", "Add tokens for another language; no old id changes."),
        "trim": ("tokenizer", "Drop the tokens that a corpus does not need."),
        "graft": ("tokenizer", "Give a model rows for an extended or trimmed vocabulary."),
        "card": ("tokenizer", "Measure a vocabulary on your texts."),
    },
    "dataset": {
        "verify": ("dataset", "Check hashes, counts, bounds and a re-encoded sample."),
        "commit": ("dataset", "Publish the manifest of a job whose units are complete."),
        "convert": ("dataset", "Rewrite a dataset in another format."),
        "push": ("dataset", "Upload a dataset to the Hugging Face Hub, with a card."),
        "blend": ("dataset", "Write the data path list of several datasets for Megatron."),
        "report": ("dataset", "Write the report of a run again."),
        "transcode": ("dataset", "Encode a dataset for another tokenizer, without the raw text."),
        "remove": ("dataset", "Write a dataset without some of its documents."),
        "rebuild": ("dataset", "Prepare a dataset again and check that every byte is the same."),
        "trace": ("trace", "Find the documents of a step, or the steps of a document."),
    },
}
# Names of scripts in other projects for the same task.
SCRIPTS = {"verify_optimization": "doctor", "train_tokenizer": "train", "preprocess_data": "prepare"}

# A parameter of the Python API in a message: `output`, or with a value `fresh=True`.
_PARAMETER = re.compile(r"`([a-z_]+)(?:=([^`]*))?`")
_FLAGS = {"`embeddings`": "--embedding", "`special_tokens=[]`": "--no-special"}


class LazyGroup(click.Group):
    """A group that lists its commands from `COMMANDS` and imports one only when it runs."""

    @property
    def table(self) -> dict[str, tuple[str, str]]:
        """Return the commands of this group; the outermost one has the program's name."""
        return COMMANDS.get(self.name or "", COMMANDS[""])

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return all names, in the order of a workflow."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command, or None for an unknown name."""
        if cmd_name not in self.table:
            return None
        module, help_ = self.table[cmd_name]
        if not module:
            return LazyGroup(cmd_name, help=help_, no_args_is_help=True)
        command: click.Command = getattr(import_module(f"tokenmill.cli.{module}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was typed, or fail with the nearest name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            word = PurePath(args[0]).stem
            near = SCRIPTS.get(word) or "".join(find_similar(word, self.table, most=1, cutoff=0.6))
            if near:
                raise click.UsageError(f"{error.message} Did you mean {near!r}?", ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of commands without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in self.table.items()])


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        # `--vocab_size` is `--vocab-size`, on every command.
        "token_normalize_func": lambda word: word.replace("_", "-"),
    },
)
@click.version_option(package_name="tokenmill")
def cli() -> None:
    """Turn raw text into training-ready tokens."""


def name_flags(message: str) -> str:
    """Replace the Python parameters of a message by flags: "`fresh=True`" -> "--fresh"."""

    def replace(found: re.Match[str]) -> str:
        value = "" if found[2] in {None, "True"} else f" {found[2].strip(chr(39)).replace('False', 'false')}"
        return _FLAGS.get(found[0], f"--{found[1].replace('_', '-')}{value}")

    return _PARAMETER.sub(replace, message)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command. A `TokenmillError` becomes one message on stderr and its exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start threads that are not used
    logs.translate = name_flags
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # searching for them takes 20 ms
    gc.set_threshold(100_000, 50, 100)  # scanning the objects of a vocabulary took a tenth of a small job
    for stream in (sys.stdout, sys.stderr):
        # Escape what the encoding of a terminal lacks, and file names that are not text.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if code := _run(argv):
        sys.exit(code)


def _run(argv: Sequence[str] | None) -> int:
    color = False if os.environ.get("NO_COLOR") else None
    try:
        if argv is None:
            _replace_closed_streams()
        cli.main(args=argv and list(argv), prog_name="tokenmill", standalone_mode=False, color=color)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo(
            "tokenmill: interrupted; run the same command again to continue where it stopped", err=True
        )
        return EXIT_RESUMABLE
    except TokenmillError as error:
        click.echo(logs.wrap(sys.stderr, name_flags(f"tokenmill: {error}")), err=True)
        return error.exit_code
    except OSError as error:
        where, reason = f"{error.filename}: " if error.filename else "", error.strerror or repr(error)
        words = f"tokenmill: {where}{reason}. Fix the cause and run the same command again"
        click.echo(logs.wrap(sys.stderr, words), err=True)
        return EXIT_FAILED
    return 0


def _replace_closed_streams() -> None:
    """Open the descriptors of streams that were closed before the command started (`>&-`).

    Otherwise a shard could be opened under such a descriptor and receive printed text. A closed stdout is an
    error, because the output would be lost.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the system returns the lowest free descriptor: this one
            if number == 1:
                raise TokenmillError("standard output is closed; redirect it to /dev/null") from None
            if number == 2:
                sys.stderr = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
