"""`Tokenizer.as_hf()`: an object of transformers that encodes with our core."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from tokenmill.errors import MissingExtraError, TokenizerError
from tokenmill.tokenizer.interop.hf_backend import CoreBackend
from tokenmill.tokenizer.interop.hf_rows import give_rows

if TYPE_CHECKING:
    from tokenmill.tokenizer.tokenizer import Tokenizer


def import_fast_class() -> Any:
    """Transformers' class of fast tokenizers."""
    try:
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        if "is required for a normal functioning" in str(error):
            raise TokenizerError(
                f"transformers refuses to load: {str(error).partition(chr(10))[0]}"
            ) from error
        raise MissingExtraError.of("transformers", "hf", "a tokenizer of transformers") from error
    return PreTrainedTokenizerFast


def to_hf(tokenizer: Tokenizer, **options: Any) -> Any:
    """The tokenizer as transformers loads it from our files, with our core in the place of its engine."""
    recipe = tokenizer.recipe
    made = import_fast_class()
    if recipe.python is not None:
        from transformers import PreTrainedTokenizerBase

        if isinstance(recipe.python, PreTrainedTokenizerBase):
            return recipe.python
        raise TokenizerError(
            f"{recipe.source}: a {type(recipe.python).__name__} has no tokenizer.json for transformers"
        )
    with tempfile.TemporaryDirectory(prefix="tokenmill-hf-") as folder:
        tokenizer.save(folder)
        loaded = made.from_pretrained(folder, **options)
    # The folder is gone; what shows up in messages and saved files is where the tokenizer came from.
    loaded.name_or_path = recipe.source
    loaded.init_kwargs["name_or_path"] = recipe.source
    if tokenizer.strategy.name == "native":
        loaded._tokenizer = CoreBackend(loaded._tokenizer)  # noqa: SLF001 - the one seam that it has
        give_rows(loaded)
    return loaded
