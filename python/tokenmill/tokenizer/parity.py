"""Compare the native engine with Hugging Face's on the user's own documents, before a long job relies on it.

The engines are tested for equality on many corpora, and a user's corpus may still differ. A difference never
stops a job: it falls back to Hugging Face and logs an error.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

from tokenmill.base.durable import cache_root, digest
from tokenmill.errors import MissingExtraError, TokenizerError
from tokenmill.tokenizer.engines.backend import Special
from tokenmill.tokenizer.recipe import find_pattern
from tokenmill.tokenizer.tokenizer import Tokenizer

logger = logging.getLogger("tokenmill")
# Hugging Face encodes some 2 MB a second, so a sample of this size costs a second or less.
SAMPLE_BYTES = 1 << 20
SAMPLE_DOCUMENTS = 512
# A document is at most this part of a sample, in characters.
SEVERAL = 16
# Short texts in which the alternatives of the usual patterns compete.
_PROBES = (
    "Hello, world! It's 12345 o'clock; WE'RE here.\r\n\r\n\tdef f(x):\n    return x ** 2\n",
    "안녕하세요 세계, 中文测试。日本語のテキスト 123 e\u0301 👨‍👩‍👧 \u00a0 \u3000\n\n  x",
    "camelCase HTTPServer don't DON'T 'll ///\n\n\n...!?  _a_ <b>&amp;</b> \0 \ufeff\U0010ffff",
)


@dataclass(frozen=True)
class Verdict:
    """The tokenizer to use, on how many documents it was compared, and the first difference if any."""

    tokenizer: Tokenizer
    documents: int = 0
    difference: str | None = None
    skipped: str | None = None


def check_parity(
    tokenizer: Tokenizer,
    documents: Iterable[str],
    *,
    special: Special = "text",
    threads: int | None = None,
) -> Verdict:
    """Compare on a sample, log the result, and return the tokenizer to continue with."""
    if not tokenizer.engine.native:
        return Verdict(
            tokenizer, skipped=f"the {tokenizer.strategy.name} strategy runs the tokenizer's own code"
        )
    sample = take_sample(documents)
    # Lists, since NumPy would take longer to import than a small sample to compare.
    ours = tokenizer.encode_lists(sample, special=special, threads=threads)
    try:
        reference = tokenizer.with_strategy("huggingface")
        theirs = reference.encode_lists(sample, special=special)
    except (MissingExtraError, TokenizerError) as error:
        return Verdict(tokenizer, skipped=str(error))
    difference = find_difference(sample, ours, theirs)
    if difference is None:
        text = "Parity: native and Hugging Face give the same ids on %d of your documents"
        logger.info(text, len(sample))
    else:
        logger.error(
            "PARITY: native and Hugging Face differ on your documents, so this job uses the huggingface "
            "engine instead. Nothing is wrong with your data; please report this: %s",
            difference,
        )
    return Verdict(tokenizer if difference is None else reference, len(sample), difference)


def take_sample(documents: Iterable[str], most: int = SAMPLE_BYTES) -> list[str]:
    """Return the first documents up to the limits; long ones are cut, so that there are several."""
    sample: list[str] = []
    size = 0
    for document in documents:
        sample.append(document[: max(1, most // SEVERAL)])
        size += len(sample[-1].encode("utf-8", "surrogatepass"))
        if size >= most or len(sample) >= SAMPLE_DOCUMENTS:
            break
    return sample


def find_difference(sample: list[str], ours: list[list[int]], theirs: list[list[int]]) -> str | None:
    """Return the first difference, with its document and token, or None."""
    for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        for token, (found, wanted) in enumerate(zip_longest(mine, other, fillvalue="nothing")):
            if found != wanted:
                ids = f"native {found}, Hugging Face {wanted}"
                return f"document {place} of the sample, token {token}: {ids}, in {sample[place][:80]!r}"
    return None


def locate_memory(tokenizer: Tokenizer, sample: Sequence[str], special: str) -> Path:
    """Return the empty file that exists once this comparison was made and no id differed."""
    modules = [_identify("tokenmill._core"), _identify("tokenizers")]
    return cache_root() / "parity" / digest([tokenizer.fingerprint, *modules, special, *sample])


def _identify(module: str) -> str:
    """Return a string that changes with every installation of a module."""
    found = find_spec(module)
    if found is None or found.origin is None:
        return "none"
    status = os.stat(found.origin)  # noqa: PTH116 - a plain string
    return f"{status.st_size}-{status.st_mtime_ns}"


def check_conversion(tokenizer: Tokenizer, target: str | Path, format: str) -> int:  # noqa: A002
    """Load the saved files, compare ids on a few texts, and return how many; raise `TokenizerError`."""
    pattern = find_pattern(tokenizer.recipe.pre_tokenizer) if format == "tiktoken" else None
    again = Tokenizer.load(target, pattern=pattern)
    for probe in _PROBES:
        if again.encode(probe, special="text") != tokenizer.encode(probe, special="text"):
            raise TokenizerError(
                f"{target}: encodes {probe[:20]!r}… differently from {tokenizer.source}; {format} cannot "
                "hold this tokenizer: save it as 'hf'"
            )
    return len(_PROBES)
