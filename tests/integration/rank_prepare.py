"""One rank that calls the real `tokenmill.prepare`: `python rank_prepare.py INPUT OUTPUT DELAY UNIT_BYTES`.

Prints one JSON line: the hash of what it reads, or its error. The input may be several, separated by commas.
"""

import hashlib
import json
import sys
import time

import tokenmill
from byte_tokenizer import ByteTokenizer
from tokenmill.errors import TokenmillError


def main():
    inputs, output, delay, unit_bytes = sys.argv[1:5]
    time.sleep(float(delay))
    try:
        dataset = tokenmill.prepare(
            inputs=inputs.split(","),
            tokenizer=ByteTokenizer(),
            output=output,
            unit_bytes=int(unit_bytes),
            packing={"mode": "stream", "eos": True},
            verbose_level="ERROR",
            stall_timeout=20,
        )
    except TokenmillError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        return
    content = hashlib.sha256(b"".join(row.tobytes() for row in dataset.rows(64, tail="pad", pad_id=0)))
    print(json.dumps({"hash": content.hexdigest(), "tokens": dataset.num_tokens}))


if __name__ == "__main__":
    main()
