"""Run a job in child processes and SIGKILL them at random moments, until so many have died; then let it end.

python kill_loop.py KILLS CORPUS PLACE: prints one JSON object. A process of its own, so that it can fork without threads.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from test_determinism import tree_hash

import tokenmill
import tokenmill.jobs.prepare.prepare
from byte_tokenizer import ByteTokenizer
from tokenmill.jobs.verify import verify_dataset


class Slow(ByteTokenizer):
    """Takes its time, so that a kill can hit any stage."""

    def encode_batch(self, docs, **options):
        time.sleep(0.002)
        return super().encode_batch(docs, **options)


def job(corpus, output):
    tokenmill.prepare(
        inputs=corpus,
        tokenizer=Slow(),
        output=str(output),
        unit_bytes=20_000,
        batch_size=40,
        threads=2,
        deduplicate=True,
        provenance=True,
        verbose_level="ERROR",
        show_progress=False,
    )


def attempt(corpus, output, seconds):
    """True if the child was killed, False if it came to its end first."""
    child = os.fork()
    if child == 0:
        try:
            job(corpus, output)
        except BaseException as error:  # noqa: BLE001
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit("a child failed by itself")
    return os.WIFSIGNALED(status)


def differs(output, expected, place):
    """Whether two datasets differ in any content; says where on stderr, and keeps the one that does."""
    if tree_hash(output) == tree_hash(expected):
        return False
    subprocess.run(["diff", "-rq", str(expected), str(output)], stdout=sys.stderr, check=False)
    shutil.copytree(output, place / f"differs-{time.time_ns()}")
    return True


def hidden(output):
    """Names of hidden files, without what tells processes apart: what a kill may leave and no reader opens."""
    names = (path.name for path in output.rglob(".*"))
    return [re.sub(r"(\.json)\.\w+$|^(\.tmp)-.*$", r"\1\2", name) for name in names]


def main(kills, corpus, place):
    expected_root = place / "whole"
    started = time.monotonic()
    job(corpus, expected_root)
    whole = time.monotonic() - started
    chosen = random.Random(20260102)
    killed = finished = wrong = 0
    left = Counter()
    output = place / "killed"
    while killed < kills:
        if attempt(corpus, output, chosen.uniform(0.0, 0.7 * whole)):
            killed += 1
        if (output / "manifest.json").exists():
            # A published manifest must be whole, whatever was killed since.
            finished += 1
            wrong += differs(output, expected_root, place)
            left.update(hidden(output))
            shutil.rmtree(output)
    job(corpus, output)
    wrong += differs(output, expected_root, place)
    problems = [c.name for c in verify_dataset(output, tokenizer=Slow()) if c.state == "problem"]
    leftovers = [p.name for p in output.rglob(".tmp-*")]
    print(
        json.dumps(
            {
                "killed": killed,
                "finished": finished + 1,
                "wrong": wrong,
                "problems": problems,
                "leftovers": leftovers,
                "left": left,
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
