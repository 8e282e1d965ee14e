"""Which engine a recipe gets."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from tokenmill.errors import TokenizerError, UnsupportedError
from tokenmill.tokenizer.engines.backend import Strategy
from tokenmill.tokenizer.engines.native import NativeEngine

if TYPE_CHECKING:
    from tokenmill.tokenizer.engines.backend import Engine, StrategyName
    from tokenmill.tokenizer.engines.fast import FastEngine
    from tokenmill.tokenizer.recipe import Recipe


def build(
    recipe: Recipe, wanted: StrategyName | Literal["auto"], num_proc: int | None = None
) -> tuple[Engine, Strategy]:
    """The engine for a recipe: `native` where the core proves it, else `fast`, unless the caller chooses."""
    if wanted not in {"auto", "native", "fast", "slow"}:
        raise TokenizerError(f"strategy={wanted!r}; expected auto, native, fast or slow")
    if recipe.python is not None or wanted == "slow":
        return _build_slow(recipe, wanted, num_proc)
    if wanted == "fast":
        return _build_fast(recipe), Strategy("fast", "as requested")
    try:
        engine = NativeEngine(recipe)
    except UnsupportedError as reason:
        if wanted == "native":
            raise TokenizerError(
                f"{recipe.source}: the native engine does not support {reason}; use strategy='auto'"
            ) from reason
        return _build_fast(recipe), Strategy("fast", str(reason))
    except TokenizerError as error:
        return _fall_back(recipe, wanted, error)
    kind = "byte-level" if recipe.model and recipe.model.kind == "bytes" else "SentencePiece-style"
    return engine, Strategy("native", f"{kind} BPE, scanner {engine.family}")


def _fall_back(recipe: Recipe, wanted: str, error: TokenizerError) -> tuple[Engine, Strategy]:
    """The fast engine for a file that the core refuses and Hugging Face loads, or else the core's error."""
    if recipe.hf is not None and wanted == "auto":
        with suppress(TokenizerError):
            return _build_fast(recipe), Strategy("fast", str(error))
    raise TokenizerError(f"{recipe.source}: {error}") from error


def _build_slow(recipe: Recipe, wanted: str, num_proc: int | None) -> tuple[Engine, Strategy]:
    """Worker processes: the only engine of a Python tokenizer, and possible for any other."""
    # Imported here: it brings in multiprocessing, which few tokenizers need.
    from tokenmill.tokenizer.engines.slow import HfInPython, SlowEngine

    if recipe.python is None:
        return SlowEngine(HfInPython(_build_fast(recipe)), num_proc), Strategy("slow", "as requested")
    kind = type(recipe.python).__name__
    if wanted not in {"auto", "slow"}:
        raise TokenizerError(
            f"{recipe.source}: a Python tokenizer ({kind}) cannot run as {wanted!r}; use strategy='auto'"
        )
    claim = getattr(recipe.python, "is_fast", None)
    reason = f"{kind} has no is_fast" if claim is None else f"{kind}.is_fast is {claim}"
    return SlowEngine(recipe.python, num_proc), Strategy("slow", recipe.reason or reason)


def _build_fast(recipe: Recipe) -> FastEngine:
    from tokenmill.tokenizer.engines.fast import FastEngine
    from tokenmill.tokenizer.files.hf_text import HfText
    from tokenmill.tokenizer.files.save_hf import to_json

    hf = recipe.hf or HfText(to_json(recipe))
    family = str(hf.model.get("type", "unknown"))
    return FastEngine(hf.spell_out(), family, recipe.added, recipe.source, _find_id_limit(recipe))


def _find_id_limit(recipe: Recipe) -> int | None:
    """One more than the largest id; None where only Hugging Face has read the model."""
    if recipe.model is None:
        return None
    ids = [*(token.id for token in recipe.added), *(token_id for token_id, _ in recipe.model.unreachable)]
    return max(len(recipe.model.tokens), max(ids, default=-1) + 1)
