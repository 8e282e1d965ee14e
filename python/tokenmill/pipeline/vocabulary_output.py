"""What `extend` and `trim` write: a whole directory or none."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import stage_directory
from tokenmill.errors import ConfigError
from tokenmill.tokenizer.files.kinds import save
from tokenmill.vocab.maps import hash_vocabulary, write_map
from tokenmill.vocab.side_files import copy_settings, find_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tokenmill.tokenizer.tokenizer import Tokenizer

logger = logging.getLogger("tokenmill.vocabulary")


def check_output(output: str | Path | None) -> None:
    """Raise `ConfigError` for a directory that is not empty, before anything is read."""
    if output is None or not Path(output).exists():
        return
    if not Path(output).is_dir() or any(Path(output).iterdir()):
        raise ConfigError(f"{output} is not an empty directory; give another --output, or remove it first")


def check_rows(multiple: int) -> None:
    """Raise `ConfigError` for a number that nothing can be a multiple of."""
    if multiple < 1:
        raise ConfigError(f"pad_to_multiple is {multiple}; expected 1 or more, such as 64")


def identify(tokenizer: Tokenizer, multiple: int | None = None) -> dict[str, Any]:
    """What a map says of a tokenizer; `multiple` is what its rows of the embedding are rounded up to."""
    about: dict[str, Any] = {
        "source": tokenizer.source,
        "fingerprint": tokenizer.fingerprint,
        "vocabulary": hash_vocabulary(tokenizer.recipe),
        "vocab_size": tokenizer.vocab_size,
    }
    if multiple is not None:
        about["embedding_rows"] = -(-tokenizer.vocab_size // multiple) * multiple
    return about


def write_vocabulary(
    base: Tokenizer,
    result: Tokenizer,
    output: Path,
    name: str,
    body: dict[str, Any],
    new_ids: Mapping[int, int] | None = None,
) -> None:
    """Write all files of the new tokenizer, or none.

    The other files of `base` are copied too; `new_ids` are its ids in `result`, where they change.
    """
    with stage_directory(output) as staging:
        save(result.recipe, staging, "hf")
        home = find_home(base.source)
        if home is not None:
            same = new_ids is None and result.recipe.config == base.recipe.config
            copy_settings(home, staging, new_ids, config_too=same)
        write_map(staging / name, body)
    logger.info("Wrote %s", output)
