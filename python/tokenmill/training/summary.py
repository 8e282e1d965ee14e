"""What a training did, in numbers and in words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill import _core
from tokenmill.base.console import words

if TYPE_CHECKING:
    from tokenmill.settings.schema import TrainingConfig
    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.training.counting import Counted
    from tokenmill.training.merging import Merged


def summarise(
    options: TrainingConfig,
    counted: Counted,
    merged: Merged,
    tokenizer: Tokenizer,
    seconds: float,
) -> dict[str, Any]:
    """The figures of `training.json`."""
    full = len(merged.tokens) >= options.model_tokens
    return {
        "tokenmill": _core.__version__,
        "vocab_size": len(merged.tokens) + len(options.special_tokens),
        "wanted_vocab_size": options.vocab_size,
        "stopped": "vocabulary full" if full else "no pair left that may be merged",
        "merges": len(merged.merges),
        "last_pair_count": int(merged.counts[-1]) if len(merged.counts) else None,
        **counted.figures(),
        "spilled_bytes": counted.spilled_bytes,
        "pieces_merged": merged.pieces,
        "refused": counted.refused,
        "bytes_per_token": measure_bytes_per_token(tokenizer, counted.sample),
        "sample": "held out" if options.held_out else "of the training texts",
        "seconds": {
            "counting": round(counted.seconds, 3),
            "merging": round(merged.seconds, 3),
            "total": round(seconds, 3),
        },
    }


def measure_bytes_per_token(tokenizer: Tokenizer, sample: list[str]) -> float | None:
    """How many bytes of the sample one token covers on average."""
    # One text at a time: none is large enough to be worth the encoder's full cache, 16 MB for a glance.
    tokens = sum(int(tokenizer.count_batch([text], special="text", threads=1).sum()) for text in sample)
    return round(sum(len(text.encode()) for text in sample) / tokens, 4) if tokens else None


def format_lines(summary: dict[str, Any]) -> list[str]:
    """The summary for people, a line each."""
    seconds = summary["seconds"]
    times = (f"{stage} {seconds[stage]:.2f} s" for stage in ("counting", "merging", "total"))
    found = [
        f"vocabulary      {summary['vocab_size']:,} tokens, {summary['merges']:,} merges",
        f"stopped         {summary['stopped']}; the last pair occurs {summary['last_pair_count']} times",
        f"read            {summary['documents']:,} documents, {words.size(summary['bytes'])}",
        f"pieces          {summary['pieces']:,}, {summary['unique']:,} of them different",
        f"time            {', '.join(times)}",
    ]
    if summary["spilled_bytes"]:
        found.append(f"spilled         {words.size(summary['spilled_bytes'])} of counts to disk")
    if summary["refused"]:
        refused = ", ".join(f"{reason} {count}" for reason, count in summary["refused"].items())
        found.append(f"refused         {refused}")
    if summary["bytes_per_token"] is not None:
        found.append(f"bytes per token {summary['bytes_per_token']:.2f} on a sample {summary['sample']}")
    return found
