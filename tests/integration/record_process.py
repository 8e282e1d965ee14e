"""A training loop that writes down what it read.

`record_process.py SPEC.json...` started as torchrun starts ranks is one of them. Without RANK it starts the
ranks of each spec itself, one spec after another, as processes that need not import torch again.
"""

import json
import os
import sys
from pathlib import Path

import torch  # noqa: F401 - once, before ranks are forked

import tokenmill


def read_as_rank(spec, rank, world_size):
    turns = {"rank": rank, "world_size": world_size}
    if "mixture" in spec:
        feed = tokenmill.Mixture.load(spec["mixture"]).batches(spec["batch_size"], **turns)
    else:
        rows = tokenmill.open(spec["dataset"]).rows(spec["context_length"])
        feed = rows.batches(spec["batch_size"], shuffle=True, seed=spec["seed"], **turns)
    if spec["state"]:
        feed.load_state_dict(json.loads(Path(spec["state"]).read_text()))
    loader = feed.to_torch(spec["workers"])
    seen, done = [], 0
    while done < spec["steps"]:
        for batch in loader:
            seen.append(batch["input_ids"].tolist())
            done += 1
            if done == spec["steps"]:
                break
    Path(f"{spec['out']}.{rank}.json").write_text(json.dumps(seen))
    if rank == 0:
        Path(f"{spec['out']}.state.json").write_text(json.dumps(loader.state_dict()))


def start_ranks(spec):
    children = []
    for rank in range(spec["world_size"]):
        child = os.fork()
        if not child:
            code = 1
            try:
                read_as_rank(spec, rank, spec["world_size"])
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    if any(os.waitpid(child, 0)[1] for child in children):
        sys.exit(f"a rank of {spec['out']} failed")


for name in sys.argv[1:]:
    given = json.loads(Path(name).read_text())
    if "RANK" in os.environ:
        read_as_rank(given, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    else:
        start_ranks(given)
