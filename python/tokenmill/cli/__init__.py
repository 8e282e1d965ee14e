"""The `tokenmill` command. Each subcommand is one file, imported only when it is called."""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from tokenmill.base.near import near_words
from tokenmill.base.platform import is_refusal, is_room_limited, set_last_words
from tokenmill.cli.say import say
from tokenmill.errors import EXIT_FAILED, EXIT_RESUMABLE, TokenmillError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Group -> command -> (its module here, with `command` inside, and one line of help).
COMMANDS = {
    "": {
        "quickstart": ("quickstart", "Train, prepare, open and report on a bundled sample."),
        "train": ("train", "Train a byte-level BPE tokenizer."),
        "prepare": ("prepare", "Turn raw text into a training-ready dataset."),
        "encode": ("encode", "Text to token ids."),
        "decode": ("decode", "Token ids to text."),
        "inspect": ("inspect", "Look at a tokenizer or a dataset."),
        "plan": ("plan", "Estimate tokens, disk, time and FLOPs before a byte is written."),
        "doctor": ("doctor", "Check this machine and set-up, and say what to fix."),
        "bench": ("bench", "Time your tokenizer on your files, beside the peers installed."),
        "serve": ("serve", "Open the playground and the runs in a browser."),
        "config": ("config", "Write, explain and show settings; export lines for a shell."),
        "tokenizer": ("tokenizer", "Work on tokenizers: convert, extend, trim, graft, sizes."),
        "dataset": ("dataset", "Work on datasets: verify, convert, push, blend, trace, remove, rebuild."),
    },
    "tokenizer": {
        "convert": ("convert", "Save a tokenizer in another format."),
        "extend": ("extend", "Add tokens for another language; no old id changes."),
        "trim": ("trim", "Drop the tokens that a corpus does not need."),
        "graft": ("graft", "Give a model rows for an extended or trimmed vocabulary."),
        "sizes": ("vocabulary_sizes", "Compare bytes per token at several vocabulary sizes."),
    },
    "dataset": {
        "verify": ("verify", "Check a dataset: hashes, counts, bounds, a re-encoded sample."),
        "commit": ("commit", "Publish the manifest of a job whose units are all done."),
        "convert": ("convert_dataset", "Rewrite a dataset in another format."),
        "push": ("push", "Upload a dataset to the Hugging Face hub, with a card."),
        "blend": ("blend", "Write the data path list of several datasets for Megatron."),
        "report": ("report", "Write the report of a run again, or compare two."),
        "transcode": ("transcode", "Re-encode for another tokenizer, without the raw text."),
        "remove": ("remove", "Write a dataset without some of its documents."),
        "rebuild": ("rebuild", "Prepare a dataset again and check that every byte is the same."),
        "trace": ("trace", "Find the documents of a step, or the steps of a document."),
    },
}
# Former names, which still work but are not listed.
FORMER = {
    "convert": "convert",
    "convert-dataset": "convert_dataset",
    "verify": "verify",
    "commit": "commit",
    "report": "report",
    "account": "account",
    "env": "env",
}


_ABORTED = "A library aborted the process, most likely because memory ran out"
_SHRUNK = (
    "A file that was being read became shorter, or its disk failed (SIGBUS). Run the same command again when "
    "nothing writes there"
)
_MORE_MEMORY = "Free some or set --memory-budget, and run the same command again"


class LazyGroup(click.Group):
    """Lists its commands from `COMMANDS`, and imports one only when it runs."""

    @property
    def table(self) -> dict[str, tuple[str, str]]:
        """Its commands; the outermost group has the program's name, whatever it was started as."""
        return COMMANDS.get(self.name or "", COMMANDS[""])

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names, in the order in which a user meets them."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command object, or None for an unknown name."""
        former = FORMER.get(cmd_name) if self.table is COMMANDS[""] else None
        module = self.table[cmd_name][0] if cmd_name in self.table else former
        if module is None:
            return None
        if module in COMMANDS:
            return LazyGroup(module, help=self.table[cmd_name][1], no_args_is_help=True)
        command: click.Command = import_module(f"tokenmill.cli.{module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was typed; an unknown name is answered with the nearest one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if near := near_words(args[0], self.table, most=1, cutoff=0.6):
                raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The table of commands, without importing any of them."""
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


def main(argv: Sequence[str] | None = None) -> Any:
    """Run the command; every `TokenmillError` becomes one clear message and its exit code."""
    _start_lean()
    if argv is None:
        _hold_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # Neither a terminal's encoding nor a file name that is not text may end a job: both are escaped.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if argv is None:
        set_last_words(f"tokenmill: {_ABORTED}. {_MORE_MEMORY}\n", f"tokenmill: {_SHRUNK}\n", EXIT_FAILED)
        if is_room_limited():
            from tokenmill.cli.room import RoomForNumPy

            sys.meta_path.insert(0, RoomForNumPy())
    code = _run(argv)
    if argv is None:
        # This process ends now: the interpreter need not look for garbage among all that it still holds.
        gc.freeze()
    if code:
        sys.exit(code)


def _run(argv: Sequence[str] | None) -> int:
    interrupt = _Interrupt()
    try:
        with interrupt.answer():
            words = list(argv) if argv is not None else None
            color = False if os.environ.get("NO_COLOR") else None
            cli.main(args=words, prog_name="tokenmill", standalone_mode=False, color=color)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _say_interrupted()
    except Exception as error:
        if interrupt.heard and not isinstance(error, TokenmillError):
            return _say_interrupted()
        if is_refusal(error):
            error = MemoryError(str(error))
        if not isinstance(error, TokenmillError | OSError | MemoryError):
            raise
        say(f"tokenmill: {_explain(error)}", err=True)
        return error.exit_code if isinstance(error, TokenmillError) else EXIT_FAILED
    return 0


class _Interrupt:
    """Remembers Ctrl-C: a library that is just being imported may turn it into another error."""

    heard = False

    def __call__(self, number: int, frame: Any) -> None:
        """Raise `KeyboardInterrupt`, as Python's own handler does."""
        self.heard = True
        signal.default_int_handler(number, frame)

    @contextmanager
    def answer(self) -> Iterator[None]:
        """Handle Ctrl-C while a command runs, if this process is the command."""
        mine = signal.getsignal(signal.SIGINT) is signal.SIG_DFL  # as `tokenmill/__init__.py` left it
        show, show_lost = sys.excepthook, sys.unraisablehook
        try:
            if mine:
                signal.signal(signal.SIGINT, self)
                # NumPy prints what ends its import, whatever it is, before it raises an error of its own.
                sys.excepthook = lambda kind, *error: kind is KeyboardInterrupt or show(kind, *error)
                # What Python cannot propagate (as it ends an import) is printed and lost.
                sys.unraisablehook = lambda lost: (
                    _interrupt_again() if lost.exc_type is KeyboardInterrupt else show_lost(lost)
                )
            yield
        finally:
            if mine:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                sys.excepthook, sys.unraisablehook = show, show_lost


def _interrupt_again() -> None:
    """Send the interrupt again, once Python can no longer lose it."""
    from threading import Timer

    Timer(0.01, signal.raise_signal, [signal.SIGINT]).start()


def _say_interrupted() -> int:
    click.echo("tokenmill: interrupted; run the same command again to continue where it stopped", err=True)
    return EXIT_RESUMABLE


def _explain(error: Exception) -> str:
    """`OSError(5, "Input/output error", "out/plan.json")` -> a sentence with the remedy; ours have one."""
    if isinstance(error, TokenmillError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"out of memory{f' ({error})' if str(error) else ''}. {_MORE_MEMORY}"
    where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
    words = error.strerror if isinstance(error, OSError) and error.strerror else f"{error!r}"
    return f"{where}{words}. The system refused this; fix the cause and run the same command again"


class _ClosedOutput(io.RawIOBase):
    """A standard output that was closed before we began."""

    def writable(self) -> bool:
        """True, so that `write` is called."""
        return True

    def write(self, _data: Any, /) -> int:
        """Raise `OSError`, which says why."""
        raise OSError(errno.EBADF, "standard output is closed")


def _hold_closed_streams() -> None:
    """Occupy the numbers of standard streams that were closed before we began (`>&-`).

    A shard that was opened under such a number would receive whatever is printed there. Writing to a closed
    standard output fails, as on a full disk: ids that nobody receives are not a success. What is written to a
    closed standard error is lost; the exit code remains.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is given, which is this one.
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if name == "stdout":
                sys.stdout = io.TextIOWrapper(_ClosedOutput(), "utf-8", write_through=True)
            elif name == "stderr":
                sys.stderr = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _start_lean() -> None:
    """Start sooner, by settings that only a process of our own may change, before anything heavy is imported.

    NumPy's linear algebra would start threads that nothing here uses. A vocabulary is some hundred thousand
    objects that stay alive: searching them for garbage again and again took a tenth of a small job's time.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(100_000, 50, 100)
