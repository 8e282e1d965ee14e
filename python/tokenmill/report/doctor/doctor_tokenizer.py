"""The tokenizer: can it be loaded, which engine runs it and why, and does native agree with Hugging Face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.errors import MissingExtraError, TokenmillError
from tokenmill.report.doctor.doctor import Check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.tokenizer.tokenizer import Tokenizer

# Compared when no data is given: letters, digits, spaces, code, three scripts, marks and an emoji.
SAMPLES = (
    "Hello, world! It's 2026; we've 1234567 tokens & counting...\n\n  Done.",
    "def f(x):\n    return {'a': [1, 2.5e-3], \"b\": x != None}  # \tcomment\r\n",
    "안녕하세요. 토크나이저를 검증합니다! 你好世界。こんにちは、カタカナ ー。",
    "naïve café — Ελληνικά, Русский, العربية, हिन्दी, ไทย 🙂👩‍💻 x²",
)
TRAIN = "tokenmill train INPUT --vocab-size 32000 --output DIR"


def run_checks(tokenizer: str | None, data: tuple[str, ...] = ()) -> Iterator[Check]:
    """Every check of the tokenizer; nothing when none is given."""
    if tokenizer is None:
        return
    from tokenmill.tokenizer.tokenizer import Tokenizer

    try:
        loaded = Tokenizer.load(tokenizer)
    except TokenmillError as error:
        name, fix = "tokenizer", f"check the path, or train one: {TRAIN}"
        if isinstance(error, MissingExtraError):
            name, fix = "extras", "pip install 'tokenmill[hf]'"
        yield Check(name, "problem", str(error), f"{tokenizer} cannot be loaded", fix)
        return
    yield check_engine(loaded)
    yield check_ids(loaded, data)


def check_engine(tokenizer: Tokenizer) -> Check:
    """Which engine runs it: native, huggingface or python."""
    name = tokenizer.strategy.name
    shown = f"{tokenizer.source}: {tokenizer.vocab_size} tokens, {tokenizer.strategy}"
    if name == "python":
        meaning = "a Python tokenizer: some 10 to 50 times slower than a fast one"
        fix = f"load its fast version (use_fast=True), or train one: {TRAIN}"
        return Check("tokenizer", "problem", shown, meaning, fix)
    meaning = "the fastest engine runs it"
    if name == "huggingface":
        meaning = "Hugging Face's Rust engine runs it; the native one does not support it"
    return Check("tokenizer", "ok", shown, meaning)


def check_ids(tokenizer: Tokenizer, data: tuple[str, ...]) -> Check:
    """The same ids from native and from Hugging Face, on the user's documents where they are given."""
    from tokenmill.tokenizer.parity.check import check_parity

    own = read_sample(data)
    verdict = check_parity(tokenizer, own or SAMPLES)
    if verdict.skipped:
        meaning = verdict.skipped.replace("\n", " ")
        if not tokenizer.engine.imitates:
            return Check("parity", "ok", "not compared", meaning)
        fix = "pip install 'tokenizers<1', or compare the ids yourself"
        return Check("parity", "warning", "not compared", meaning, fix)
    whose = "of your documents" if own else "built-in documents"
    if verdict.difference is None:
        found = f"same ids on {verdict.documents} {whose}"
        return Check("parity", "ok", found, "native can be trusted with this tokenizer")
    meaning = "native and Hugging Face differ; a job would fall back to huggingface"
    fix = "report it with this line; until then: --strategy huggingface"
    return Check("parity", "problem", verdict.difference, meaning, fix)


def read_sample(data: tuple[str, ...]) -> list[str]:
    """The first documents of the inputs; none when they cannot be read, which other checks report."""
    if not data:
        return []
    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources import discover, settle
    from tokenmill.sources.first_documents import read_first_documents

    try:
        files = discover(SourceConfig(inputs=data))
        source, _ = settle(SourceConfig(inputs=data), files)
        return read_first_documents(files, source).texts
    except TokenmillError:
        return []
