"""Encoders in processes of their own, taking turns on the same cells; outputs are compared before a figure counts.

A script calls `contest(__file__, names, cells, options)`. Each turn of each encoder is `python SCRIPT --worker NAME …`,
in which the script calls `report(cells)`: {cell: (action, megabytes)} -> one JSON line with speeds, digests and memory.
"""

import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from peers import digest

_before = [0.0]


def baseline():
    """Call when the inputs are there and the encoder is not: memory is counted from here."""
    Path("/proc/self/clear_refs").write_text("5")
    _before[0] = _status("VmRSS")


def peak_megabytes():
    """The most memory that this process held at once since `baseline`, over what it held then."""
    return _status("VmHWM") - _before[0]


def _status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def report(cells):
    """Runs every cell once and prints what `contest` reads: speeds, a digest of the ids, the peak of all."""
    found = {}
    for name, (action, megabytes) in cells.items():
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        result = action()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        found[name] = {"cpu": megabytes / cpu, "wall": megabytes / wall, "ids": flat_digest(result)}
        del result
    print(json.dumps({"cells": found, "memory": peak_megabytes()}))


def flat_digest(result):
    """One hash of the ids of all documents, whatever holds them."""
    import numpy as np

    ids = result[0] if isinstance(result, tuple) else result
    if type(ids).__module__.split(".")[0] == "awkward":
        import awkward

        ids = awkward.to_numpy(awkward.flatten(ids))
    elif isinstance(ids, list):
        ids = [token for document in ids for token in document]
    return digest([np.asarray(ids)])


def contest(script, names, arguments, turns, threads):
    """{cell: {encoder: {cpu, wall, memory}}}, best of the turns; an encoder with other ids, or that fails, is told."""
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
    best = {}
    for turn in range(turns):
        for name in names:
            command = [sys.executable, script, "--worker", name, *arguments]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
                print(f"{name} failed in turn {turn}: {last[:200]}", file=sys.stderr)
                continue
            told = json.loads(done.stdout.splitlines()[-1])
            for cell, figures in told["cells"].items():
                figures["memory"] = told["memory"]
                _keep(best.setdefault(cell, {}), name, figures)
    for cell, rows in best.items():
        for name, row in rows.items():
            row["same"] = row["ids"] == rows["tokenmill"]["ids"]
            if not row["same"]:
                print(f"{cell}: {name} gives other ids; its figure does not count", file=sys.stderr)
    return best


def _keep(rows, name, figures):
    known = rows.setdefault(name, figures)
    known["cpu"], known["wall"] = max(known["cpu"], figures["cpu"]), max(known["wall"], figures["wall"])
    known["memory"] = min(known["memory"], figures["memory"])


def table(best, kind):
    """Markdown: MB per CPU-second (`cpu`) or per second (`wall`), ours over each other's, and peaks in MB."""
    names = list(dict.fromkeys(name for rows in best.values() for name in rows))
    lines = ["| cell | " + " | ".join(names) + " | peak MB |", "|---" * (len(names) + 2) + "|"]
    for cell, rows in best.items():
        ours = rows["tokenmill"][kind]
        told = []
        for name in names:
            row = rows.get(name)
            if row is None or not row["same"]:
                told.append("failed" if row is None else "other ids")
            else:
                told.append(
                    f"{row[kind]:.0f} ({ours / row[kind]:.2f}x)" if name != "tokenmill" else f"{ours:.0f}"
                )
        peaks = " / ".join(f"{rows[name]['memory']:.0f}" if name in rows else "-" for name in names)
        lines.append(f"| {cell} | " + " | ".join(told) + f" | {peaks} |")
    return "\n".join(lines)
