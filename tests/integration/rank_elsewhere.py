"""One rank on a host of its own, as far as names and directories go: `python rank_elsewhere.py HOST INPUT OUTPUT`.

It calls the real `tokenmill.prepare`, slowly, and prints one JSON line. Hosts share nothing but the object store.
"""

import json
import platform
import sys
import time

host, inputs, output = sys.argv[1:4]
platform.node = lambda: host

import tokenmill  # noqa: E402 - after the host has its name
from byte_tokenizer import ByteTokenizer  # noqa: E402
from tokenmill.errors import TokenmillError  # noqa: E402
from tokenmill.pipeline import ranks  # noqa: E402

ranks.STORE_BEAT_SECONDS, ranks.QUIET_SECONDS = 1.0, 8.0


def slowly(_text):
    time.sleep(0.02)
    return True


def main():
    try:
        dataset = tokenmill.prepare(
            inputs=inputs,
            tokenizer=ByteTokenizer(),
            output=output,
            unit_bytes=2000,
            text_field="text",
            threads=1,
            show_progress=False,
            keep=slowly,
            on_error="fail",
        )
    except TokenmillError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))
    else:
        print(json.dumps({"hash": dataset.content_hash}))


if __name__ == "__main__":
    main()
