"""Choose and build the engine of a recipe."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tokenmill.errors import TokenizerError, UnsupportedError
from tokenmill.tokenizer.engines.backend import Strategy
from tokenmill.tokenizer.engines.native import NativeEngine

if TYPE_CHECKING:
    from tokenmill.tokenizer.engines.backend import Engine, StrategyOption
    from tokenmill.tokenizer.engines.huggingface import HuggingFaceEngine
    from tokenmill.tokenizer.recipe import Recipe

_ALIASES = {"fast": "huggingface", "slow": "python"}


def build(recipe: Recipe, strategy: StrategyOption, num_proc: int | None = None) -> tuple[Engine, Strategy]:
    """Return the engine for a recipe and the reason: "auto" is `native` if the core supports the recipe."""
    wanted = _ALIASES.get(strategy, strategy)
    if wanted not in {"auto", "native", "huggingface", "python"}:
        raise TokenizerError(f"strategy={wanted!r}; expected auto, native, huggingface or python")
    if recipe.python is not None or wanted == "python":
        return _build_python(recipe, wanted, num_proc)
    if wanted == "huggingface":
        return _build_huggingface(recipe), Strategy("huggingface", "as requested")
    try:
        engine = NativeEngine(recipe)
    except TokenizerError as error:
        if wanted == "native" and isinstance(error, UnsupportedError):
            raise TokenizerError(
                f"{recipe.source}: the native engine does not support {error}; use strategy='auto'"
            ) from error
        if wanted == "auto" and isinstance(error, UnsupportedError):
            return _build_huggingface(recipe), Strategy("huggingface", str(error))
        # A file that the core refuses may still load in Hugging Face's library.
        if wanted == "auto" and recipe.hf is not None:
            with suppress(TokenizerError):
                return _build_huggingface(recipe), Strategy("huggingface", str(error))
        raise TokenizerError(f"{recipe.source}: {error}") from error
    kind = "byte-level" if recipe.model and recipe.model.kind == "bytes" else "SentencePiece-style"
    return engine, Strategy("native", f"{kind} BPE, scanner {engine.family}")


def _build_python(recipe: Recipe, wanted: str, num_proc: int | None) -> tuple[Engine, Strategy]:
    # Imported here: it imports multiprocessing, which few tokenizers need.
    from tokenmill.tokenizer.engines.python import HfInPython, PythonEngine

    if recipe.python is None:
        inner = HfInPython(_build_huggingface(recipe))
        return PythonEngine(inner, num_proc), Strategy("python", "as requested")
    kind = type(recipe.python).__name__
    if wanted not in {"auto", "python"}:
        raise TokenizerError(
            f"{recipe.source}: a Python tokenizer ({kind}) cannot run as {wanted!r}; use strategy='auto'"
        )
    claim = getattr(recipe.python, "is_fast", None)
    reason = f"{kind} has no is_fast" if claim is None else f"{kind}.is_fast is {claim}"
    return PythonEngine(recipe.python, num_proc), Strategy("python", recipe.reason or reason)


def _build_huggingface(recipe: Recipe) -> HuggingFaceEngine:
    from tokenmill.tokenizer.engines.huggingface import HuggingFaceEngine
    from tokenmill.tokenizer.files.hf import HfText, to_json

    hf = recipe.hf or HfText(to_json(recipe))
    family = str(hf.model.get("type", "unknown"))
    return HuggingFaceEngine(hf.spell_out(), family, recipe.added, recipe.source, _find_id_limit(recipe))


def _find_id_limit(recipe: Recipe) -> int | None:
    """Return the largest id plus one; None if only Hugging Face has read the model."""
    if recipe.model is None:
        return None
    ids = [*(token.id for token in recipe.added), *(token_id for token_id, _ in recipe.model.unreachable)]
    return max(len(recipe.model.tokens), max(ids, default=-1) + 1)
