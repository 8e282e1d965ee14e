"""Render a conversation in a separate process: the template comes with the tokenizer and is not trusted.

`python -m tokenmill.web.chat TOKENIZER` reads the typed text from stdin and prints the answer as JSON.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from tokenmill.errors import ConfigError, TokenmillError
from tokenmill.report.documents import show_typed
from tokenmill.tokenizer.tokenizer import Tokenizer

MOST_SECONDS = 10
MOST_BYTES = 1 << 30
LONGEST_WAIT = 120
OUT_OF_MEMORY = 3
_FREE = BoundedSemaphore(2)


def show_chat(path: Path, text: str) -> dict[str, Any]:
    """Return what `show_typed` does for the tokenizer at `path`; raise `ConfigError` beyond the limits."""
    command = [sys.executable, "-m", __name__, str(path)]
    # `-m` imports from the working directory first, which must not be a served one.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}
    try:
        with _FREE:
            done = subprocess.run(  # noqa: S603
                command,
                input=text.encode("utf-8", "surrogatepass"),
                capture_output=True,
                check=False,
                cwd=Path(__file__).parent / "static",
                env=environment,
                timeout=LONGEST_WAIT,
            )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{path.name} was not loaded in {LONGEST_WAIT} seconds; try again") from None
    late = done.returncode == 1 and b"Timeout (" in done.stderr  # the message of faulthandler
    if late or done.returncode < 0 or done.returncode == OUT_OF_MEMORY:
        limit = f"{MOST_SECONDS} seconds" if late else f"{MOST_BYTES >> 20} MiB"
        raise ConfigError(
            f"the chat template of {path.name} takes more than {limit} for this conversation; correct it"
        )
    if done.returncode:
        raise RuntimeError(done.stderr.decode("utf-8", "replace"))
    answer: dict[str, Any] = json.loads(done.stdout)
    if "error" in answer:
        raise ConfigError(answer["error"])
    return answer


def _limit() -> None:
    """End this process after some seconds, even inside a C function, and refuse it more memory."""
    faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
    with suppress(OSError, ValueError, ImportError):  # only Linux can limit memory this way
        import resource

        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MOST_BYTES,) * 2)


def main() -> None:
    """Answer one request."""
    text = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
    try:
        tokenizer = Tokenizer.load(sys.argv[1])
        _limit()
        answer = show_typed(tokenizer, text)
    except TokenmillError as error:
        answer = {"error": str(error)}
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)
    if "MemoryError" in answer.get("problem", ""):  # a template may raise any exception
        sys.exit(OUT_OF_MEMORY)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
