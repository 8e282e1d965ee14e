"""Native against Hugging Face on the user's own documents, before a long job trusts it.

The engines are proven equal on test corpora; a user's corpus is the one that counts. A difference never
stops a job: it falls back to Hugging Face, and says so loudly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenmill.base.console import lines
from tokenmill.errors import MissingExtraError, TokenizerError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenmill.tokenizer.engines.backend import Special
    from tokenmill.tokenizer.tokenizer import Tokenizer

# Hugging Face encodes some 2 MB a second, so a sample of this size costs a second or less.
SAMPLE_BYTES = 1 << 20
SAMPLE_DOCUMENTS = 512
# A document is at most this part of a sample, in characters.
SEVERAL = 16


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
    add_special_tokens: bool = False,
    threads: int | None = None,
    most: int = SAMPLE_BYTES,
) -> Verdict:
    """Compare on `most` bytes, log the result, and return the tokenizer to continue with."""
    if not tokenizer.engine.imitates:
        return Verdict(
            tokenizer, skipped=f"the {tokenizer.strategy.name} strategy runs the tokenizer's own code"
        )
    sample = take_sample(documents, most)
    options: dict[str, Any] = {"special": special, "add_special_tokens": add_special_tokens}
    # Lists, since NumPy would take longer to import than a small sample to compare.
    ours = tokenizer.encode_lists(sample, **options, threads=threads)
    try:
        reference = tokenizer.with_strategy("huggingface")
        difference = find_difference(sample, ours, reference.encode_lists(sample, **options))
    except MissingExtraError as error:
        return Verdict(
            tokenizer,
            skipped=f"comparing native with Hugging Face needs a package that is missing: {error.remedy}",
        )
    except TokenizerError as error:
        return Verdict(tokenizer, skipped=str(error))
    lines.log_parity(len(sample), difference)
    return Verdict(tokenizer if difference is None else reference, len(sample), difference)


def take_sample(documents: Iterable[str], most: int = SAMPLE_BYTES) -> list[str]:
    """The first documents up to the limits; of a long one only the beginning, so that there are several."""
    sample: list[str] = []
    size = 0
    for document in documents:
        sample.append(document[: max(1, most // SEVERAL)])
        size += len(sample[-1].encode("utf-8", "surrogatepass"))
        if size >= most or len(sample) >= SAMPLE_DOCUMENTS:
            break
    return sample


def find_difference(sample: list[str], ours: list[list[int]], theirs: list[list[int]]) -> str | None:
    """`"document 3 of the sample, token 7: native 314, Hugging Face 40, in 'I am …'"`, or None."""
    for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if mine == other:
            continue
        token = next(
            (index for index, (a, b) in enumerate(zip(mine, other, strict=False)) if a != b),
            min(len(mine), len(other)),
        )
        found, wanted = (row[token] if token < len(row) else "nothing" for row in (mine, other))
        text = sample[place] if len(sample[place]) <= 80 else sample[place][:80] + "…"
        ids = f"native {found}, Hugging Face {wanted}"
        return f"document {place} of the sample, token {token}: {ids}, in {text!r}"
    return None
