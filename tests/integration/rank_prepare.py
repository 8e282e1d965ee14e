"""One rank that calls `tokenmill.prepare`: `python rank_prepare.py INPUT OUTPUT '{"delay": 0.5, "min_chars": 8}'`.

Prints one JSON line: the hash of what it reads and the documents it processed, or its error. In addition to settings, the object may have `delay`, the seconds
before the call; `pause`, those for each document; `poison`, which takes away what a collective needs.
"""

import hashlib
import json
import socket
import sys
import time

import tokenmill
from byte_tokenizer import ByteTokenizer
from tokenmill.errors import TokenmillError


def main():
    inputs, output, options = *sys.argv[1:3], json.loads(sys.argv[3])
    delay, pause, poison = (options.pop(name, 0) for name in ("delay", "pause", "poison"))
    if poison:
        # Any collective, and any rendezvous for one, would need one of these.
        socket.socket.connect = socket.socket.bind = None
        sys.modules["torch"] = None
    time.sleep(delay)
    processed = []
    try:
        dataset = tokenmill.prepare(
            inputs=inputs,
            tokenizer=ByteTokenizer(),
            output=output,
            verbose_level="ERROR",
            threads=1,
            report=False,
            keep=lambda text: not processed.append(text) and not time.sleep(pause),
            **{"unit_bytes": 4096, "stall_timeout": 20} | options,
        )
    except TokenmillError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        return
    content = hashlib.sha256(b"".join(document.tobytes() for document in dataset))
    found = {"hash": content.hexdigest(), "tokens": dataset.num_tokens, "processed": len(processed)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
