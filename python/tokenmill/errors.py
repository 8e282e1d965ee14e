"""All exceptions of the package. Each is also a builtin exception, for an ordinary `except`.

A message states what was found, where (file:line:byte), what was expected, and what to do. The class
has the exit code of the command.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_REJECTS = 3
EXIT_RESUMABLE = 75


class TokenmillError(Exception):
    """The base class of all exceptions; the command exits with `exit_code`."""

    exit_code = EXIT_FAILED


class ConfigError(TokenmillError, ValueError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another."""

    exit_code = EXIT_USAGE


class TokenizerError(TokenmillError, ValueError):
    """A vocabulary cannot be loaded, or text cannot be encoded with it."""


class UnsupportedError(TokenizerError):
    """The core cannot prove that it runs a tokenizer exactly; the message is the reason."""


class TokenizerNotFoundError(TokenizerError, FileNotFoundError):
    """There is no tokenizer at that path or Hub id."""

    exit_code = EXIT_USAGE


class InputError(TokenmillError, ValueError):
    """A document or file is invalid, and the policy is `fail`."""


class InputNotFoundError(InputError, FileNotFoundError):
    """An input path, glob or URL matches nothing."""

    exit_code = EXIT_USAGE


class InputUnavailableError(TokenmillError, OSError):
    """The machine or a store failed while an input was read; the input itself may be valid."""

    exit_code = EXIT_RESUMABLE


class RejectLimitError(TokenmillError):
    """The job finished with more rejected records or units than allowed."""

    exit_code = EXIT_REJECTS


class InterruptedJobError(TokenmillError):
    """The job stopped before its end (signal, full disk); the same command resumes it."""

    exit_code = EXIT_RESUMABLE


class ResumeError(ConfigError):
    """The output directory belongs to another job; the message names the fields that differ."""


class DatasetError(TokenmillError, ValueError):
    """A dataset is incomplete, damaged, or of a newer format."""


class UnknownLengthError(DatasetError, TypeError):
    """The number of rows of a stream is unknown. A `TypeError`, as callers of `len()` expect."""


class StoreError(TokenmillError, OSError):
    """An object store is unreachable, refuses access or lacks a feature; the same command resumes."""


class LeaderError(TokenmillError, RuntimeError):
    """The rank that prepares failed or died; the message names the cause."""


class InternalError(TokenmillError, RuntimeError):
    """A bug in the core; include the message in a bug report."""


class MissingExtraError(TokenmillError, ImportError):
    """An optional dependency is not installed."""

    exit_code = EXIT_USAGE

    remedy = "install the package that is missing"

    @classmethod
    def of(cls, package: str, extra: str | None, purpose: str) -> MissingExtraError:
        """Return an error that names the command to run, its `remedy`."""
        remedy = f"pip install 'tokenmill[{extra}]'" if extra else f"pip install {package}"
        error = cls(f"{purpose} needs the package {package!r}: {remedy}")
        error.remedy = remedy
        return error


@contextmanager
def explain_missing(package: str, extra: str | None, purpose: str) -> Iterator[None]:
    """Raise an `ImportError` within this block as a `MissingExtraError`, which names the command to run."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError.of(package, extra, purpose) from error
