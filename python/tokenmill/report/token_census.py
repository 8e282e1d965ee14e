"""One pass over a dataset's tokens and document lengths, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.report.scripts import count_scripts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenmill.tokenizer.tokenizer import Tokenizer

CHUNK = 1 << 24  # tokens counted at a time
TOP = 40


@dataclass(frozen=True)
class Census:
    """How often each id occurs, and how many documents have each length class (powers of two)."""

    counts: np.ndarray[Any, np.dtype[np.int64]]
    length_classes: np.ndarray[Any, np.dtype[np.int64]]
    longest: int
    length_sum: int

    def describe_vocabulary(self, tokenizer: Tokenizer | None) -> dict[str, Any]:
        """Used and unused ids, the most frequent tokens, and the rank-frequency curve at about 60 ranks."""
        order = np.argsort(-self.counts, kind="stable")
        used = int((self.counts > 0).sum())
        ranks = sorted({int(rank) for rank in np.geomspace(1, max(used, 1), 60)}) if used else []
        return {
            "size": len(self.counts),
            "used": used,
            "unused": len(self.counts) - used,
            "unused_sample": [_show(tokenizer, int(i)) for i in np.flatnonzero(self.counts == 0)[:TOP]],
            "top": [
                {"id": int(i), "token": _show(tokenizer, int(i)), "count": int(self.counts[i])}
                for i in order[:TOP]
                if self.counts[i]
            ],
            "rank_frequency": [{"rank": rank, "count": int(self.counts[order[rank - 1]])} for rank in ranks],
        }

    def count_scripts(self, tokenizer: Tokenizer) -> list[dict[str, Any]]:
        """Tokens, bytes and bytes per token by script, the script with most bytes first."""
        used = np.flatnonzero(self.counts).tolist()
        rows = count_scripts((tokenizer.token_bytes(token), int(self.counts[token])) for token in used)
        return [row | {"bytes_per_token": row["bytes"] / row["tokens"]} for row in rows]

    def count_lengths(self) -> dict[str, Any]:
        """Documents by length class, with cumulative shares, the longest and the mean."""
        total = int(self.length_classes.sum())
        rows, seen = [], 0
        for power, documents in enumerate(self.length_classes.tolist()):
            seen += documents
            if documents:
                rows.append(
                    {
                        "from": 0 if power == 0 else 1 << (power - 1),
                        "to": (1 << power) - 1,
                        "documents": documents,
                        "cumulated_percent": 100 * seen / total,
                    }
                )
        return {
            "classes": rows,
            "documents": total,
            "longest": self.longest,
            "mean": self.length_sum / total if total else 0.0,
        }


def take_census(
    parts: Iterable[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]], vocab_size: int
) -> Census:
    """Count ids and lengths, which come as pairs of arrays, some at a time."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    classes = np.zeros(64, dtype=np.int64)
    longest = length_sum = 0
    for tokens, lengths in parts:
        for start in range(0, len(tokens), CHUNK):
            counts += np.bincount(tokens[start : start + CHUNK], minlength=vocab_size)[:vocab_size]
        if len(lengths):
            # The class of n is its bit length: 0, 1, 2-3, 4-7, … so that a class is a step of a log axis.
            bits = np.frexp(lengths.astype(np.float64))[1]
            classes += np.bincount(bits, minlength=64)[:64]
            longest = max(longest, int(lengths.max()))
            length_sum += int(lengths.sum(dtype=np.int64))
    return Census(counts, classes, longest, length_sum)


def _show(tokenizer: Tokenizer | None, token: int) -> str:
    if tokenizer is None:
        return f"#{token}"
    try:
        return tokenizer.token_bytes(token).decode("utf-8", "backslashreplace")
    except (KeyError, ValueError, IndexError):
        return f"#{token}"
