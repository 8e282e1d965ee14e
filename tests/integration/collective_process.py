"""One rank that has a process group with a timeout of two seconds, and then waits five for its leader.

`python collective_process.py ROOT wait` waits as `prepare` does; `... barrier` waits as others do, to show that a collective
would not have lasted.
"""

import sys
import time
from datetime import timedelta
from pathlib import Path

from torch import distributed

from small_datasets import numbered
from tokenmill.datasets.dataset import open_dataset
from tokenmill.pipeline.ranks import lead_or_wait
from tokenmill.settings.schema import ExecutionConfig

TIMEOUT, WORK = timedelta(seconds=2), 5


def work(root):
    time.sleep(WORK)
    return open_dataset(numbered(root, 100))


def find(root):
    return open_dataset(root) if (root / "manifest.json").exists() else None


def main():
    root, how = Path(sys.argv[1]), sys.argv[2]
    distributed.init_process_group("gloo", timeout=TIMEOUT)
    if how == "wait":
        options = {"find": lambda: find(root), "lead": lambda: work(root)}
        data = lead_or_wait(root, str(root), ExecutionConfig(), **options)
    else:
        data = work(root) if distributed.get_rank() == 0 else None
        distributed.barrier()
        data = data or open_dataset(root)
    print(f"read {data.num_tokens}", flush=True)
    # Leave at once: a group whose barrier failed would wait for it again on the way out.
    sys.stdout.flush()
    import os

    os._exit(0)


if __name__ == "__main__":
    main()
