"""The `tokenmill` command: what happens before click reads the arguments, and after the command has ended."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from tokenmill.cli.ahead import begin_ahead
from tokenmill.errors import EXIT_FAILED, EXIT_RESUMABLE, TokenmillError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> Any:
    """Run the command; every `TokenmillError` becomes one clear message and its exit code."""
    _start_lean()
    code = _run(argv)
    if code:
        sys.exit(code)
    if argv is None:
        _leave()


def _run(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    begun = begin_ahead(arguments)
    # Only now: it takes as long to import as the core to read a small vocabulary.
    import click

    from tokenmill.cli.commands import cli

    try:
        cli.main(args=arguments, prog_name="tokenmill", standalone_mode=False, obj=begun)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("tokenmill: interrupted; the same command goes on where it stopped", err=True)
        return EXIT_RESUMABLE
    except TokenmillError as error:
        click.echo(f"tokenmill: {error}", err=True)
        return error.exit_code
    return 0


def _start_lean() -> None:
    """What only a process of our own may do, before anything heavy is imported, to start sooner.

    NumPy's linear algebra would start threads that nothing here uses. A vocabulary is some hundred thousand
    objects that stay: looking among them for garbage over and over took a tenth of the time of a small job.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(100_000, 50, 100)


def _leave() -> None:
    """End this process after all that others asked to be done at its end, without taking every module apart.

    That alone would take 60 ms, as long as a small job works.
    """
    logging.shutdown()
    atexit._run_exitfuncs()  # noqa: SLF001 - the only way to run them before `_exit`
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        os._exit(EXIT_FAILED)
    os._exit(0)
