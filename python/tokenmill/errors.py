"""Every error that a user can meet. Each is also the builtin that an ordinary `except` expects.

A message says what was found, where (file:line:byte), what was expected, and what to do. The class
carries the exit code that the command ends with.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_REJECTS = 3
EXIT_RESUMABLE = 75


class TokenmillError(Exception):
    """The base class of all; the command exits with `exit_code`."""

    exit_code = EXIT_FAILED


class ConfigError(TokenmillError, ValueError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another."""

    exit_code = EXIT_USAGE


class TokenizerError(TokenmillError, ValueError):
    """A vocabulary cannot be loaded, or text cannot be encoded with it."""


class UnsupportedError(TokenizerError):
    """The core cannot prove that it runs a tokenizer exactly; the message is the reason."""


class TokenizerNotFoundError(TokenizerError, FileNotFoundError):
    """No tokenizer at that path or hub id."""

    exit_code = EXIT_USAGE


class InputError(TokenmillError, ValueError):
    """A document or a file cannot be read as what it should be, and the policy is `fail`."""


class InputNotFoundError(InputError, FileNotFoundError):
    """An input path, glob or URL matches nothing."""

    exit_code = EXIT_USAGE


class InputUnavailableError(TokenmillError, OSError):
    """The machine or a store failed while an input was read; its content may be perfectly good."""

    exit_code = EXIT_RESUMABLE


class RejectLimitError(TokenmillError):
    """The job finished, with more rejected records or units than the user allows."""

    exit_code = EXIT_REJECTS


class InterruptedJobError(TokenmillError):
    """The job stopped before its end (signal, full disk); the same command resumes it."""

    exit_code = EXIT_RESUMABLE


class ResumeError(ConfigError):
    """The output directory belongs to another job; the message names the fields that differ."""


class DatasetError(TokenmillError, ValueError):
    """A dataset is incomplete, damaged, or of a newer format."""


class StoreError(TokenmillError, OSError):
    """An object store cannot be reached, refuses, or lacks what a job needs; the same command resumes it."""


class LeaderError(TokenmillError, RuntimeError):
    """The rank that prepares failed or died; the message names the cause."""


class InternalError(TokenmillError, RuntimeError):
    """A bug in the core; the message is what a bug report needs."""


class MissingExtraError(TokenmillError, ImportError):
    """An optional dependency is not installed."""

    exit_code = EXIT_USAGE

    remedy = "install the package that is missing"

    @classmethod
    def of(cls, package: str, extra: str | None, purpose: str) -> MissingExtraError:
        """`of("ray", "ray", "the ray executor")` -> an error that names the command to run, its `remedy`."""
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
