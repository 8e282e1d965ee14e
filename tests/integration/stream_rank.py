"""One rank of a run that reads a stream: logs the rows of each step and saves the state after it."""

import hashlib
import json
import sys
from pathlib import Path

import tokenmill


def main(settings):
    settings = json.loads(settings)
    root, rank = Path(settings["root"]), settings["rank"]
    stream = tokenmill.stream(
        settings["inputs"],
        str(root / "tokenizer"),
        str(root / "output"),
        cache_dir=root / settings["cache"],
        cache=settings["cache_bytes"],
        unit_bytes=settings["unit_bytes"],
        verbose_level="ERROR",
    )
    rows = stream.rows(64, packing="bestfit")
    world = settings["world_size"]
    feed = rows.batches(2, shuffle="local", seed=5, rank=rank, world_size=world, window=2, lanes=3)
    if settings["state"] is not None:
        feed.load_state_dict(settings["state"])
    place = root / settings["leg"]
    place.mkdir(exist_ok=True)
    for step, batch in enumerate(feed):
        hashes = [hashlib.sha256(row.tobytes()).hexdigest() for row in batch["input_ids"]]
        record = {"rows": hashes, "state": feed.state_dict()}
        (place / f"{rank}-{step}.tmp").write_text(json.dumps(record))
        (place / f"{rank}-{step}.tmp").rename(place / f"{rank}-{step}.json")
        if feed.position >= settings["until"]:
            break


if __name__ == "__main__":
    main(sys.argv[1])
