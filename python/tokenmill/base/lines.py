"""Log the lines of a job, in the words that users look for in their logs."""

from __future__ import annotations

import logging

from tokenmill.base import words
from tokenmill.base.machine import GB

logger = logging.getLogger("tokenmill")
PARALLELISM = {
    "native": "native_rust_threads",
    "huggingface": "fast_tokenizer_internal",
    "python": "python_multiprocessing",
}
# Each rating and the bytes of text per second and core that it takes; documents can be of any length.
RATINGS = ((20e6, "very fast ✅"), (5e6, "fast ✅"), (1e6, "normal ⚠️"), (0, "slow"))
# Seconds; much of a shorter job is start-up.
SHORTEST_RATED = 10.0


def log_tokenizer(strategy: str, why: str = "", processes: int | None = None) -> None:
    """Log the engine and the reason; warn of a slow one."""
    reason = f" ({why})" if why else ""
    if strategy == "python":
        logger.debug(
            "Slow tokenizer detected - using Python multiprocessing with %d processes%s",
            processes or 1,
            reason,
        )
        logger.warning(
            "Using slow tokenizer - consider upgrading to a fast tokenizer for better performance: "
            "load it with use_fast=True, or train one on your data with: "
            "tokenmill train INPUT --vocab-size 32000 --output DIR"
        )
        return
    if strategy == "huggingface":
        logger.debug("Fast tokenizer detected - using internal Rust parallelism (num_proc=None)%s", reason)
        logger.info("✅ Using Fast Tokenizer (Rust-based)%s", reason)
        return
    logger.debug("Native tokenizer detected - using Tokenmill's Rust threads (num_proc=None)%s", reason)
    logger.info("✅ Using native tokenizer (Tokenmill's Rust core)%s", reason)


def log_performance(
    strategy: str, batch_size: int | None = None, *, threads: int | None = None, num_proc: int | None = None
) -> None:
    """Log `Performance configuration: batch_size=6000, parallelism=...`."""
    parts = [f"batch_size={batch_size if batch_size is not None else 'auto'}"]
    if strategy == "python" and num_proc is not None:
        parts.append(f"num_proc={num_proc}")
    if strategy == "native" and threads is not None:
        parts.append(f"threads={threads}")
    parts.append(f"parallelism={PARALLELISM[strategy]}")
    logger.info("Performance configuration: %s", ", ".join(parts))


def log_memory(available: int, budget: int) -> None:
    """Log the free memory and the part of it that text and tokens in flight may take."""
    logger.info(
        "Memory: %.1fGB available, up to %s of text and tokens in flight", available / GB, words.size(budget)
    )


def log_loading(workers: int, kind: str, batch_size: int) -> None:
    """Log workers and batch sizes; `kind` is `threads` or `processes`."""
    logger.info("📊 Dataset loading settings:")
    logger.info("  - Parallel %s: %d", kind, workers)
    logger.info("  - Batch size: %d", batch_size)
    logger.info("  - Writer batch size: %d", batch_size)


def log_packing(mode: str, context_length: int | None = None, overlap: int = 0) -> None:
    """Log how token ids become rows."""
    kinds = {
        "concat": "Using sequence concatenation (packing mode)",
        "window": "Using overlapping windows",
        "bestfit": "Using best-fit packing (documents kept whole where they fit)",
        "pad": "Using one padded row per document",
        "stream": "Using one token stream; rows are cut when it is read",
    }
    rows = f", context_length={context_length}" if context_length else ""
    rows += f", overlap={overlap}" if overlap else ""
    logger.info("📦 %s%s", kinds[mode], rows)


def log_known_parity(documents: int) -> None:
    """Log that the same comparison was made before."""
    logger.info(
        "✅ Parity: native and Hugging Face gave the same ids on these %d documents before", documents
    )


def log_skipped_parity(why: str, *, possible: bool) -> None:
    """No comparison was made; a warning where it could have been."""
    logger.log(logging.WARNING if possible else logging.INFO, "Parity check skipped: %s", why)


def log_unsupported(why: str) -> None:
    """Warn that a tokenizer stays with Hugging Face's engine."""
    logger.warning("This tokenizer stays with Hugging Face's engine: %s", why)


def log_agreement() -> None:
    """Log that the first documents had the same ids."""
    logger.info("✅ Parity: tokenmill and Hugging Face gave the same ids on the first documents")


def log_difference(difference: str) -> None:
    """It did not give the same ids as its own engine: logged as an error."""
    logger.error(
        "PARITY: tokenmill and Hugging Face differ, so this tokenizer continues with Hugging Face's engine. "
        "Nothing is wrong with your data; please report this: %s",
        difference,
    )


def log_warm_up() -> None:
    """Before the first batch, which is not timed."""
    logger.info("🔥 Warming up tokenizer...")


def log_warmed_up() -> None:
    """Log the end of the warm-up."""
    logger.info("✅ Tokenizer warmed up")


def log_split_start(split: str, examples: int | None, *, workers: int, kind: str = "threads") -> None:
    """Log `Tokenizing split 'train' with 50000 examples`, without the number if it is not known."""
    count = f" with {examples} examples" if examples is not None else ""
    logger.info("Tokenizing split '%s'%s", split, count)
    logger.info("⚡ Tokenizing with %d %s...", workers, kind)


def log_split_end(split: str, examples: int, seconds: float, rated: str | None = None) -> None:
    """Log the end of a split: seconds, examples per second and the rating."""
    rate = examples / seconds if seconds > 0 else 0.0
    fields = {"split": split, "examples": examples, "seconds": seconds, "examples_per_second": rate}
    logger.info("Completed tokenizing split '%s' in %.2f seconds", split, seconds, extra={"fields": fields})
    logger.info("Processed %d examples at %.1f examples/sec", examples, rate)
    if rated is not None:
        logger.info("Rating: %s", rated)


def rate(size: int, seconds: float, cores: int) -> str | None:
    """`rate(800_000_000, 10.0, 2)` -> `"very fast ✅ (40.0 MB/s per core)"`; None for a short job."""
    if seconds < SHORTEST_RATED:
        return None
    rate = size / seconds / max(1, cores)
    word = next(word for least, word in RATINGS if rate >= least)
    return f"{word} ({words.size(rate)}/s per core)"


def log_parity(documents: int, difference: str | None) -> None:
    """Log the result of the comparison; a difference is an error."""
    if difference is None:
        logger.info("✅ Parity: native and Hugging Face give the same ids on %d of your documents", documents)
        return
    logger.error(
        "PARITY: native and Hugging Face differ on your documents, so this job uses the huggingface engine "
        "instead. Nothing is wrong with your data; please report this: %s",
        difference,
    )
