"""The `slow` strategy: Python tokenizers in spawned worker processes.

The first mebibyte of text is encoded in this process, since starting Python elsewhere takes longer than
that; from then on the workers do all of it. The ids are the same either way.
"""

from __future__ import annotations

import logging
import os
import pickle
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.hardware.batch import run_in_batches
from tokenmill.base.hardware.machine import measure
from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.engines.backend import Engine
from tokenmill.tokenizer.engines.foreign import Foreign
from tokenmill.tokenizer.engines.workers import WorkerLoadError, Workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tokenmill.tokenizer.engines.backend import Ids, Special
    from tokenmill.tokenizer.engines.fast import FastEngine

    Offsets = tuple[list[int], list[tuple[int, int]]]

logger = logging.getLogger("tokenmill.tokenizer")
IN_PROCESS_BYTES = 1 << 20
# Several chunks for each worker, so that one with long documents does not keep the others waiting.
CHUNKS_PER_WORKER = 4


class SlowEngine(Engine):
    """Encodes with `tokenizer` (any object that `Foreign` understands) in `num_proc` processes."""

    family = "python"
    in_processes = True

    def __init__(self, tokenizer: Any, num_proc: int | None = None) -> None:
        self.foreign = Foreign(tokenizer)
        self.num_proc = num_proc or measure().slow_processes
        self.id_limit = self.foreign.id_limit
        self._dtype = np.uint16 if self.id_limit <= 1 << 16 else np.uint32
        self._lock = threading.Lock()
        self._workers: Workers | None = None
        self._seen = 0
        self._alone = False

    def __reduce__(self) -> tuple[type[SlowEngine], tuple[Any, int]]:
        return SlowEngine, (self.foreign.tokenizer, self.num_proc)

    def encode(self, text: str | bytes, special: Special, *, template: bool) -> list[int]:
        """The ids of one text, in this process."""
        with self._lock:
            return self.foreign.encode_many([_to_text(text)], special, template=template)[0]

    def encode_batch(
        self, docs: Any, special: Special, *, template: bool, threads: int = 0
    ) -> tuple[Ids, NDArray[np.int64]]:
        """The ids of many texts, flat, with offsets; `threads` is for engines that have any."""
        del threads
        listed = docs.to_pylist() if hasattr(docs, "to_pylist") else docs
        texts = [_to_text(document) for document in listed]
        workers = self._get_workers(sum(map(len, texts)))
        if workers is None:
            parts = [self._encode_here(texts, special, template=template)]
        else:
            try:
                parts = _spread(workers, texts, special, template=template)
            except WorkerLoadError as error:
                with self._lock:
                    self._alone = True
                _warn_alone(str(error))
                parts = [self._encode_here(texts, special, template=template)]
        return self._join(parts)

    def offsets(self, text: str, special: Special, *, template: bool) -> Offsets:
        """Not supported: Python tokenizers do not say where a token came from."""
        del text, special, template
        raise TokenizerError(
            "a slow tokenizer does not report which characters a token covers; use a fast version of it"
        )

    def decode(self, ids: Sequence[int] | NDArray[Any], *, skip_special: bool) -> bytes:
        """The bytes that the tokenizer's own decoding gives."""
        with self._lock:
            return self.foreign.decode([int(token) for token in ids], skip_special=skip_special)

    def token_bytes(self, token_id: int) -> bytes | None:
        """The string of one id in UTF-8, or None where the tokenizer does not say."""
        token = self.foreign.find_token(token_id)
        return None if token is None else token.encode()

    def id_of(self, token: bytes) -> int | None:
        """The id of one string, or None."""
        return self.foreign.vocabulary.get(token.decode("utf-8", "replace"))

    def close(self) -> None:
        """End the worker processes; they also end with this process."""
        with self._lock:
            workers, self._workers = self._workers, None
        if workers:
            workers.close()

    def _get_workers(self, size: int) -> Workers | None:
        """The workers, started once there has been enough text; None while this process does the work."""
        with self._lock:
            self._seen += size
            if self._alone or self._seen < IN_PROCESS_BYTES:
                return None
            if self._workers is None or self._workers.process_id != os.getpid():
                try:
                    self._workers = Workers(EncodeJob(self.foreign), self.num_proc)
                    weakref.finalize(self, self._workers.close)
                except (pickle.PicklingError, AttributeError, TypeError) as error:
                    self._alone = True
                    _warn_alone(str(error))
                    return None
            return self._workers

    def _encode_here(self, texts: list[str], special: Special, *, template: bool) -> Any:
        with self._lock:
            return EncodeJob(self.foreign)(texts, special, template)

    def _join(self, parts: list[Any]) -> tuple[Any, NDArray[np.int64]]:
        lengths = np.concatenate([np.zeros(1, np.int64), *(lengths for _, lengths in parts)])
        ids = np.concatenate([np.zeros(0, np.uint32), *(ids for ids, _ in parts)])
        if len(ids) and int(ids.max()) >= self.id_limit:
            # The width of the files was chosen by the limit: a larger id would be cut, so it is an error.
            raise TokenizerError(
                f"the tokenizer returned the id {int(ids.max())} although it says that ids are below "
                f"{self.id_limit}; correct its vocab_size (or __len__, get_vocab)"
            )
        return ids.astype(self._dtype, copy=False), np.cumsum(lengths)


class HfInPython:
    """Any Hugging Face tokenizer as an object that is asked from Python, one text at a time."""

    is_fast = False

    def __init__(self, fast: FastEngine) -> None:
        self._fast = fast
        self.vocab_size = fast.id_limit

    def encode(
        self, text: str, *, add_special_tokens: bool = False, split_special_tokens: bool = True
    ) -> list[int]:
        """The ids of one text."""
        special: Special = "text" if split_special_tokens else "parse"
        return self._fast.encode(text, special, template=add_special_tokens)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> bytes:
        """The bytes of the ids."""
        return self._fast.decode(ids, skip_special=skip_special_tokens)


class EncodeJob:
    """What a worker does with a chunk: texts -> `(flat uint32 ids, int64 length of each document)`."""

    def __init__(self, foreign: Foreign) -> None:
        self.foreign = foreign

    def __call__(
        self,
        texts: Sequence[str],
        special: Special,
        template: bool,  # noqa: FBT001 - crosses a pipe as a tuple
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Encode a chunk, halving it rather than failing when memory is short."""

        def encode(part: Sequence[str]) -> list[list[int]]:
            return self.foreign.encode_many(part, special, template=template)

        rows = [row for _, part in run_in_batches(texts, encode, max(1, len(texts))) for row in part]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        flat = np.fromiter((token for row in rows for token in row), np.uint32, int(lengths.sum()))
        return flat, lengths


def _spread(workers: Workers, texts: list[str], special: Special, *, template: bool) -> list[Any]:
    step = max(1, -(-len(texts) // (workers.count * CHUNKS_PER_WORKER)))
    chunks = [(texts[start : start + step], special, template) for start in range(0, len(texts), step)]
    return workers.map(chunks)


def _warn_alone(why: str) -> None:
    logger.warning(
        "This tokenizer cannot be sent to worker processes (%s), so it runs in one process. Define its class "
        "in a module that can be imported, keep its attributes picklable, and start a script's job under "
        'if __name__ == "__main__":',
        why,
    )


def _to_text(document: str | bytes) -> str:
    return document if isinstance(document, str) else document.decode("utf-8")
