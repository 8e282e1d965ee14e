"""Engine `python`: Python tokenizers, in spawned worker processes where there is enough text for them.

The first mebibyte is encoded in this process, since starting Python elsewhere takes longer than that. The ids
are the same either way.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import logging
import multiprocessing
import operator
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import TYPE_CHECKING, Any

from tokenmill.base.machine import measure
from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.engines.backend import Docs, Engine, Spans, Special, check_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray
Rows = list[list[int]]

logger = logging.getLogger("tokenmill.tokenizer")
IN_PROCESS_BYTES = 1 << 20
# Several chunks for each worker, so that long documents in one of them do not keep the others waiting.
_CHUNKS_PER_WORKER = 4
# The limit of an object that does not report its size: the largest vocabulary that we support.
_UNKNOWN_LIMIT = 1 << 24
# Encoded once for the fingerprint: letters, digits, spaces, three scripts and an emoji.
_PROBE = "Hello, world!  It's 2026 and\tcode_like(x) == 10;\n안녕하세요 你好世界 こんにちは 🙂"


def _select_accepted(function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are parameters of the function."""
    try:
        accepted = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {name: value for name, value in options.items() if name in accepted}


def _to_ids(found: Any) -> list[int]:
    """Return a list of ints from a list, an array, `{"input_ids": ...}` or an object with `.ids`."""
    found = found["input_ids"] if isinstance(found, Mapping) else getattr(found, "ids", found)
    found = found.tolist() if hasattr(found, "tolist") else found
    try:
        ids = list(map(operator.index, found))
    except TypeError:
        ids = [-1]
    if min(ids, default=0) < 0:
        raise TokenizerError(f"the tokenizer returned {found!r:.80}; expected a list of token ids")
    return ids


class PythonEngine(Engine):
    """Encode with an object that has `encode` or `__call__`, in `num_proc` processes.

    It is picklable if the object is, and worker processes get a copy.
    """

    family = "python"

    def __init__(self, tokenizer: Any, num_proc: int | None = None) -> None:
        self.tokenizer = tokenizer
        self.num_proc = num_proc or measure().slow_processes
        self.id_limit = self._find_id_limit()
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._process_id = 0
        self._blob = b""
        self._seen = 0
        self._alone = False

    def __reduce__(self) -> tuple[type[PythonEngine], tuple[Any, int]]:
        return PythonEngine, (self.tokenizer, self.num_proc)

    def encode_lists(self, docs: Docs, special: Special, *, template: bool, threads: int) -> Rows:
        del threads
        texts = check_texts(docs, special, self._special_tokens)
        rows = self._encode_in_pool(texts, special, template=template) if len(texts) > 1 else None
        if rows is None:
            with self._lock:
                rows = self.encode_here(texts, special, template=template)
        largest = max((max(row, default=0) for row in rows), default=0)
        if largest >= self.id_limit:  # the dtype of the files follows from the limit
            raise TokenizerError(
                f"the tokenizer returned the id {largest}, but reports that ids are below "
                f"{self.id_limit}; correct its vocab_size (or __len__, get_vocab)"
            )
        return rows

    def offsets(self, text: str, special: Special, *, template: bool) -> Spans:
        del text, special, template
        raise TokenizerError(
            "a Python tokenizer does not report which characters a token covers; use a fast version of it"
        )

    def encode_here(self, texts: Sequence[str], special: Special, *, template: bool) -> Rows:
        """Return the ids of each text, encoded in this process."""
        options = {"add_special_tokens": template, "split_special_tokens": special != "parse"}
        # Objects of transformers take batches and options by `__call__`; others take one text at a time.
        if hasattr(self.tokenizer, "convert_ids_to_tokens") and callable(self.tokenizer):
            # `verbose` would warn about documents longer than the model's window.
            options |= {"return_attention_mask": False, "return_token_type_ids": False, "verbose": False}
            return [_to_ids(ids) for ids in self.tokenizer(list(texts), **options)["input_ids"]]
        encode: Callable[..., Any] = getattr(self.tokenizer, "encode", None) or self.tokenizer
        options = _select_accepted(encode, options)
        return [_to_ids(encode(text, **options)) for text in texts]

    def decode(self, ids: Sequence[int] | NDArray[Any], *, skip_special: bool) -> bytes:
        decode = getattr(self.tokenizer, "decode", None)
        if decode is None:
            raise TokenizerError(
                f"{type(self.tokenizer).__name__} has no decode(ids), so its ids cannot be decoded; define it"
            )
        options = {"skip_special_tokens": skip_special, "clean_up_tokenization_spaces": False}
        with self._lock:
            text = decode([int(token) for token in ids], **_select_accepted(decode, options))
        return text if isinstance(text, bytes) else str(text).encode()

    def token_bytes(self, token_id: int) -> bytes | None:
        convert = getattr(self.tokenizer, "convert_ids_to_tokens", None)
        found = convert(token_id) if callable(convert) else None
        return found.encode() if isinstance(found, str) else None

    def id_of(self, token: bytes) -> int | None:
        return self._list_tokens().get(token.decode("utf-8", "replace"))

    @property
    def _special_tokens(self) -> tuple[str, ...]:
        found = getattr(self.tokenizer, "all_special_tokens", None) or ()
        return tuple(str(token) for token in found if str(token))

    def _list_tokens(self) -> dict[str, int]:
        """Return every token and its id; empty if the object has no `get_vocab`."""
        get_vocab = getattr(self.tokenizer, "get_vocab", None)
        return dict(get_vocab()) if callable(get_vocab) else {}

    def _find_id_limit(self) -> int:
        """Return the largest id plus one, from the vocabulary and the size that the object reports."""
        limit = 1 + max(self._list_tokens().values(), default=-1)
        for get in (len, operator.attrgetter("vocab_size"), operator.attrgetter("n_vocab")):
            with contextlib.suppress(TypeError, AttributeError, ValueError):
                limit = max(limit, int(get(self.tokenizer)))
        return limit or _UNKNOWN_LIMIT

    def fingerprint(self) -> str:
        """Return a hash of the class, the vocabulary if known, and the ids of a probe."""
        kind = type(self.tokenizer)
        facts = [
            f"{kind.__module__}.{kind.__qualname__}",
            sorted(self._list_tokens().items()),
            self._special_tokens,
            self.encode_here([_PROBE], "text", template=True),
        ]
        whole = getattr(self.tokenizer, "identity", None)
        if isinstance(whole, bytes):  # the file that determines everything
            facts.append(hashlib.sha256(whole).hexdigest())
        return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()

    def _encode_in_pool(self, texts: list[str], special: Special, *, template: bool) -> Rows | None:
        """Return the ids from worker processes, or None if this process should encode."""
        with self._lock:
            self._seen += sum(map(len, texts))
            if self._alone or self._seen < IN_PROCESS_BYTES:
                return None
        step = -(-len(texts) // (self.num_proc * _CHUNKS_PER_WORKER))
        chunks = [texts[start : start + step] for start in range(0, len(texts), step)]
        for message in ("A tokenizer process died; new ones encode its documents again", ""):
            pool = self._get_pool()
            if pool is None:
                return None
            try:
                with _hide_main(self._blob):  # processes start when chunks are submitted
                    futures = [pool.submit(_encode_chunk, chunk, special, template) for chunk in chunks]
                return [row for future in futures for row in future.result()]
            except BrokenProcessPool:
                with self._lock:
                    if self._pool is pool:  # another thread may have replaced it already
                        self._pool = None
                if message:
                    logger.warning(message)
        raise TokenizerError(
            "tokenizer processes died twice on the same documents. If memory ran out, set a smaller "
            "`batch_size` or `num_proc`; otherwise the tokenizer itself crashes on one of them"
        )

    def _get_pool(self) -> ProcessPoolExecutor | None:
        with self._lock:
            if self._pool is None or self._process_id != os.getpid():  # a forked copy owns no workers
                try:
                    self._blob, self._process_id = pickle.dumps(self), os.getpid()
                except (pickle.PicklingError, AttributeError, TypeError) as error:
                    self._alone = True
                    logger.warning(
                        "This tokenizer cannot be sent to worker processes (%s), so it runs in one process",
                        error,
                    )
                    return None
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(self.num_proc, context, _start_worker, (self._blob,))
            return self._pool


_hiding = threading.Lock()
_blob = b""


def _start_worker(blob: bytes) -> None:
    global _blob  # noqa: PLW0603 - the state of a worker process
    _blob = blob
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the parent decides
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


@cache
def _load_engine() -> PythonEngine:
    engine: PythonEngine = pickle.loads(_blob)  # noqa: S301 - written by our own parent a moment ago
    return engine


def _encode_chunk(texts: list[str], special: Special, template: bool) -> Rows:  # noqa: FBT001 - pickled by position
    try:
        return _load_engine().encode_here(texts, special, template=template)
    except Exception as error:
        raise TokenizerError(
            f"the tokenizer failed in a worker process: {type(error).__name__}: {error}"
        ) from error


@contextlib.contextmanager
def _hide_main(blob: bytes) -> Iterator[None]:
    """Keep spawned processes from running the user's script again, unless the tokenizer is defined in it.

    Without this, a script without `if __name__ == "__main__":` would start its job again in each worker.
    """
    main = sys.modules["__main__"].__dict__
    if b"__main__" in blob:
        yield
        return
    with _hiding:
        kept: dict[str, Any] = {name: main[name] for name in ("__spec__", "__file__") if name in main}
        try:
            main["__spec__"] = None
            main.pop("__file__", None)
            yield
        finally:
            main.update(kept)
