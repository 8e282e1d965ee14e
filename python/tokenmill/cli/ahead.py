"""What the bare arguments already tell, begun before anything else is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.jobs.tokenizers import Ahead

OPTION = "--tokenizer"


def begin_ahead(arguments: Sequence[str]) -> Ahead | None:
    """The tokenizer of a `prepare` command on its way: the core reads its files beside all the imports.

    A guess, since nothing has checked the arguments yet: the command takes it only if its settings, whoever
    set them, ask for the same.
    """
    name = _tokenizer_of(arguments) if arguments[:1] == ["prepare"] else None
    if name is None:
        return None
    from tokenmill.jobs.tokenizers import begin_named

    return begin_named(name)


def _tokenizer_of(arguments: Sequence[str]) -> str | None:
    """`["prepare", "a.jsonl", "--tokenizer", "gpt2"]` -> `"gpt2"`; of several the last, as click takes it."""
    found = None
    for argument, following in zip(arguments, [*arguments[1:], None], strict=True):
        if argument == "--":
            break
        if argument == OPTION:
            found = following
        elif argument.startswith(f"{OPTION}="):
            found = argument.removeprefix(f"{OPTION}=")
    return found
