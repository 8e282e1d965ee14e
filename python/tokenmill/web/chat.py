"""Render a conversation in a separate process: the template comes with the tokenizer and is not trusted.

`python -m tokenmill.web.chat TOKENIZER` reads the typed text from stdin and prints the answer as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tokenmill.errors import ConfigError, TokenmillError
from tokenmill.report.documents import show_typed
from tokenmill.tokenizer.tokenizer import Tokenizer

MOST_SECONDS = 20
MOST_BYTES = 1 << 30


def show_chat(path: Path, text: str) -> dict[str, Any]:
    """Return what `show_typed` does for the tokenizer at `path`; raise `ConfigError` beyond the limits."""
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-P", "-m", __name__, str(path)],  # -P: import nothing from a served directory
            input=text.encode(),
            capture_output=True,
            check=True,
            timeout=MOST_SECONDS,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        last = (error.stderr or b"").decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ConfigError(
            f"the chat template of {path.name} was not rendered within {MOST_SECONDS} seconds and "
            f"{MOST_BYTES >> 20} MiB ({last or type(error).__name__}); correct it"
        ) from None
    answer: dict[str, Any] = json.loads(done.stdout)
    if "error" in answer:
        raise ConfigError(answer["error"])
    return answer


def main() -> None:
    """Answer one request."""
    text = sys.stdin.buffer.read().decode()
    try:
        tokenizer = Tokenizer.load(sys.argv[1])
        with suppress(OSError, ValueError, ImportError):  # only Linux can limit memory this way
            import resource

            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + MOST_BYTES,) * 2)
        answer = show_typed(tokenizer, text)
    except TokenmillError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
