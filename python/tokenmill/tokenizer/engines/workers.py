"""Spawned Python processes that encode chunks of documents; the death of any one of them does no harm.

A worker that is killed (out of memory, by hand) is replaced, and its chunk is done again: a chunk is a
pure function of its documents. Processes are spawned, never forked: forking a process with threads can
deadlock the child. Each has its own pipe, so a death shows exactly which chunk it was.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tokenmill.errors import TokenizerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

logger = logging.getLogger("tokenmill.tokenizer")
ATTEMPTS = 3
STARTING = threading.Lock()


class WorkerLoadError(TokenizerError):
    """The tokenizer could not be rebuilt in another process."""


class WorkerStartError(Exception):
    """A process died, with this exit code, before it could do anything."""


def serve(pipe: Connection, blob: bytes) -> None:
    """Runs in a worker: rebuild the job, answer `(arguments)` with `("ok", result)` until the pipe closes."""
    # Ctrl-C reaches the whole group; the parent decides, and closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job = pickle.loads(blob)  # noqa: S301 - written by our own parent a moment ago
    except Exception as error:  # noqa: BLE001 - whatever went wrong is sent to the parent
        pipe.send(("unloadable", f"{type(error).__name__}: {error}"))
        return
    pipe.send(("ready", os.getpid()))
    with contextlib.suppress(EOFError, OSError):
        while True:
            arguments = pipe.recv()
            try:
                answer = ("ok", job(*arguments))
            except Exception as error:  # noqa: BLE001 - sent to the parent, which raises it
                answer = ("failed", f"{type(error).__name__}: {error}")
            pipe.send(answer)


class Worker:
    """One process and our end of its pipe."""

    def __init__(self, blob: bytes) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self.pipe = ours
        self.process: SpawnProcess = context.Process(target=serve, args=(theirs, blob), daemon=True)
        with STARTING, _hide_main(blob):
            self.process.start()
        theirs.close()
        try:
            kind, payload = self.pipe.recv()
        except (EOFError, OSError):
            raise WorkerStartError(self.stop()) from None
        if kind == "unloadable":
            self.stop()
            raise WorkerLoadError(payload)

    def ask(self, arguments: tuple[Any, ...]) -> Any:
        """The job's result; EOFError or OSError when the process died."""
        self.pipe.send(arguments)
        kind, payload = self.pipe.recv()
        if kind == "failed":
            raise TokenizerError(f"the tokenizer failed in a worker process: {payload}")
        return payload

    def stop(self) -> int | None:
        """Close the pipe, which ends the process; its exit code."""
        self.pipe.close()
        self.process.join(timeout=1)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        code = self.process.exitcode
        self.process.close()
        return code


class Workers:
    """`count` processes, started when first needed; `map` may be called from several threads."""

    def __init__(self, job: Any, count: int) -> None:
        self._blob = pickle.dumps(job)
        self._idle: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        for _ in range(count):
            self._idle.put(None)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="tokenmill-worker")
        self.count = count
        self.process_id = os.getpid()

    def map(self, chunks: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The results in the order of the chunks."""
        return list(self._threads.map(self._run, chunks))

    def close(self) -> None:
        """End every process, unless this is a forked copy that owns none of them."""
        if self.process_id != os.getpid():
            return
        self._threads.shutdown()
        for _ in range(self.count):
            worker = self._idle.get()
            if worker:
                worker.stop()
            self._idle.put(None)

    def _run(self, arguments: tuple[Any, ...]) -> Any:
        worker = self._idle.get()
        started = worker is not None
        try:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    worker = worker or Worker(self._blob)
                    started = True
                    return worker.ask(arguments)
                except WorkerStartError as death:
                    code = death.args[0]
                except (EOFError, OSError):
                    code = worker.stop() if worker else None
                    worker = None
                _warn_of_death(code, attempt)
        finally:
            self._idle.put(worker)
        if not started:
            raise WorkerLoadError("its processes die while they start")
        raise TokenizerError(
            f"{ATTEMPTS} tokenizer processes died on the same documents. If memory ran out, set a smaller "
            "batch_size or num_proc; otherwise the tokenizer itself crashes on one of them"
        )


def _warn_of_death(code: int | None, attempt: int) -> None:
    logger.warning(
        "A tokenizer process died (exit code %s); a new one encodes its documents again (attempt %d of %d)",
        code,
        attempt,
        ATTEMPTS,
    )


@contextlib.contextmanager
def _hide_main(blob: bytes) -> Iterator[None]:
    """Keep a spawned process from running the user's script again, unless the tokenizer lives in it.

    Python re-runs the main file in every spawned process. A script that calls us without
    `if __name__ == "__main__":` would then start the whole job once more in each worker.
    """
    main = sys.modules["__main__"]
    if b"__main__" in blob:
        yield
        return
    kept: dict[str, Any] = {
        name: main.__dict__[name] for name in ("__spec__", "__file__") if name in main.__dict__
    }
    try:
        main.__dict__["__spec__"] = None
        main.__dict__.pop("__file__", None)
        yield
    finally:
        main.__dict__.update(kept)
