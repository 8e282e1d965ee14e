"""The files of a finished training: the tokenizer in the formats asked for, and where it came from.

Everything is written to a hidden folder first and moved when it is complete, `training.json` last: whoever
sees that file sees a complete training.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import publish_json, temporary_name
from tokenmill.base.platform import sync
from tokenmill.errors import InterruptedJobError
from tokenmill.tokenizer.files.kinds import KINDS, save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tokenmill.settings.fields import SaveFormat
    from tokenmill.tokenizer.recipe import Recipe
    from tokenmill.tokenizer.tokenizer import Tokenizer

TRAINING = "training.json"


def save_all(
    tokenizer: Tokenizer,
    output: Path,
    formats: Iterable[SaveFormat],
    provenance: dict[str, Any],
    minbpe: Callable[[], Recipe],
) -> None:
    """Write every format, then `training.json`; `minbpe` makes the same vocabulary with minbpe's ids."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / TRAINING).unlink(missing_ok=True)
        staging = temporary_name(output / "tokenizer")
        staging.mkdir()
        try:
            for form in formats:
                _save(form, tokenizer.recipe, minbpe, staging)
            for file in sorted(staging.iterdir()):
                sync(file)
                file.replace(output / file.name)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        sync(output)
        publish_json(output / TRAINING, {"version": 1, **provenance, "fingerprint": tokenizer.fingerprint})
    except OSError as error:
        raise InterruptedJobError(
            f"{output} cannot be written: {error}; free space and run it again"
        ) from error


def _save(form: SaveFormat, recipe: Recipe, minbpe: Callable[[], Recipe], folder: Path) -> None:
    path = folder if KINDS[form].fills_directory else folder / KINDS[form].file
    if form == "minbpe":
        renumbered = minbpe()
        save(renumbered, path, form)
        text = "".join(f"{line}\n" for line in format_vocabulary(renumbered))
        (folder / "tokenizer.vocab").write_text(text, encoding="utf-8")
    else:
        save(recipe, path, form)


def format_vocabulary(recipe: Recipe) -> Iterator[str]:
    """Minbpe's `.vocab`, for people: `[t][h] -> [th] 256`."""
    model = recipe.model
    made: dict[bytes, tuple[int, int]] = {}
    tokens = [] if model is None else [token or b"" for token in model.tokens]
    for left, right in (model.merges if model else None) or ():
        made.setdefault(tokens[left] + tokens[right], (left, right))
    for token_id, token in enumerate(tokens):
        name = _show(token)
        if token in made:
            left, right = made[token]
            yield f"[{_show(tokens[left])}][{_show(tokens[right])}] -> [{name}] {token_id}"
        else:
            yield f"[{name}] {token_id}"
    for added in recipe.added:
        yield f"[{added.content}] {added.id}"


def _show(token: bytes) -> str:
    text = token.decode("utf-8", "replace")
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
