"""One rank of a rank test, as a process of its own: calls `lead_or_wait` with a stand-in for the work.

`python rank_process.py ROOT LOG '{"units": 5, "unit_seconds": 0.05, ...}'` prints one JSON line: what it read, or its error.
The work is as resumable as the real one: a unit that is there is not done again.
"""

import hashlib
import json
import logging
import os
import sys
import time
from pathlib import Path

from small_datasets import documents_shard, publish
from tokenmill.datasets.dataset import open_dataset
from tokenmill.datasets.ledger.manifest import PackingIdentity
from tokenmill.errors import DatasetError
from tokenmill.pipeline.ranks import lead_or_wait
from tokenmill.settings.schema import ExecutionConfig

TOKENS = 40


def note(log, word):
    with Path(log).open("a") as file:
        file.write(f"{word} {os.getpid()}\n")


def work(root, log, options):
    note(log, "lead")
    entries = []
    for unit in range(options["units"]):
        time.sleep(options["unit_seconds"])
        if options.get("fail_at") == unit:
            raise OSError(f"disk on fire at unit {unit}")
        entries.append(documents_shard(root, unit, [[unit * TOKENS + i for i in range(TOKENS)]], "uint32"))
        note(log, "unit")
    publish(root, entries, PackingIdentity(), "uint32")
    return open_dataset(root)


def find(root):
    try:
        return open_dataset(root)
    except DatasetError:
        return None


def main():
    root, log, options = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    if options.get("poison"):
        # Any collective, and any rendezvous for one, would need one of these.
        import socket

        socket.socket = socket.create_connection = None
        sys.modules["torch"] = None
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    time.sleep(options.get("delay", 0))
    execution = ExecutionConfig(**options.get("execution", {}))
    try:
        dataset = lead_or_wait(
            root,
            {"packing.context_length": options.get("context_length", 8)},
            execution,
            find=lambda: find(root),
            lead=lambda: work(root, log, options),
        )
    except Exception as error:  # noqa: BLE001
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))
        return
    content = hashlib.sha256(b"".join(document.tobytes() for document in dataset)).hexdigest()
    print(json.dumps({"hash": content, "tokens": dataset.num_tokens}))


if __name__ == "__main__":
    main()
