"""Encoders side by side: each turn of each is a process of its own, and outputs are compared before a figure counts.

A script gives a function `cells(name)` that yields `(cell, action, megabytes)`; a cell that is yielded again is measured
again. `take_turns` forks for every turn of every encoder, so that all find the same inputs in memory, and none of them
anything that another has left behind. Figures: MB per CPU-second (`cpu`) and per second (`wall`), the best of the
turns; `memory`, the most MB that the process held beside the inputs, from loading the encoder to the end of the cell,
the least of the turns.
"""

import argparse
import ctypes
import gc
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks")]
# A fork must not find the threads of somebody's pool half alive.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pyarrow as pa  # noqa: E402

import corpora  # noqa: E402
import machine  # noqa: E402
import peers  # noqa: E402


def options(description, **defaults):
    """What was asked for: the folders, and one option for each default; a tuple is a list with commas."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, default=corpora.CORPORA)
    parser.add_argument("--scratch", type=Path, default=ROOT / "benchmarks" / "results")
    for name, value in defaults.items():
        kind = (lambda text: tuple(text.split(","))) if isinstance(value, tuple) else type(value)
        parser.add_argument(f"--{name}", type=kind, default=value)
    found = parser.parse_args()
    found.scratch.mkdir(parents=True, exist_ok=True)
    return found


def megabytes(texts):
    """How much UTF-8 some texts are."""
    return sum(len(text.encode()) for text in texts) / 1e6


def own(texts):
    """In a child: takes the pages that counting references to the texts will write to, before anything is timed."""
    for _ in texts:
        pass


def take_turns(cells, names, turns, threads=1):
    """{cell: {encoder: {cpu, wall, memory, same}}}; an encoder that fails, or gives other ids than ours, is told."""
    _give_back()
    best = {}
    for turn in range(turns):
        for name in names:
            found, problem = _forked(cells, name, threads)
            if problem:
                print(f"{name} failed in turn {turn}: {problem}", file=sys.stderr)
            for cell, figures in found.items():
                _keep(best.setdefault(cell, {}), name, figures)
    for cell, rows in best.items():
        for name, row in rows.items():
            row["same"] = row["output"] == rows["tokenmill"]["output"]
            if not row["same"]:
                print(f"{cell}: {name} gives something else; its figure does not count", file=sys.stderr)
    return best


def _give_back():
    """Memory that this process has freed but keeps would be found by every child, and missing in its peak."""
    gc.collect()
    gc.freeze()
    pa.default_memory_pool().release_unused()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def _forked(cells, name, threads):
    """What `_measure` finds in a child; with the child's last words where it did not end well."""
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.dup2(errors.fileno(), 2)
                os.environ["RAYON_NUM_THREADS"] = str(threads)
                _measure(cells(name), told)
                status = 0
            except BaseException as error:  # noqa: BLE001 - whatever it is, the parent is told
                os.write(2, repr(error).encode())
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        for file in (told, errors):
            file.seek(0)
        found = {}
        for line in told:
            cell, figures = json.loads(line)
            _keep(found, cell, figures)
        words = (errors.read().strip().splitlines() or [f"ended with {os.waitstatus_to_exitcode(status)}"])[
            -1
        ]
    return found, words[:200] if status else ""


def _measure(cells, told):
    """Runs every cell and writes a line for it."""
    before = _status("VmRSS")
    highest = 0.0
    for cell, action, size in cells:
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        result = action()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        highest = max(highest, _status("VmHWM"))
        figures = {"cpu": size / cpu, "wall": size / wall, "memory": highest - before}
        figures["output"] = digest(result)
        del result
        # What the comparison took does not count: the peak starts again from what is held now.
        Path("/proc/self/clear_refs").write_text("5")
        told.write(json.dumps([cell, figures]) + "\n")
        told.flush()


def _status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def digest(result):
    """One hash of ids, bytes or texts, whatever holds them."""
    import numpy as np

    found = result[0] if isinstance(result, tuple) else result
    if type(found).__module__.split(".")[0] == "awkward":
        import awkward

        found = awkward.to_numpy(awkward.flatten(found))
    if isinstance(found, list) and isinstance(found[0], str):
        found = "\0".join(found).encode()
    elif isinstance(found, list):
        found = np.concatenate([np.asarray(ids, np.uint32) for ids in found])
    if not isinstance(found, bytes):
        found = np.asarray(found).astype(np.uint32)
    return hashlib.blake2b(found, digest_size=16).hexdigest()


def _keep(rows, name, figures):
    known = rows.setdefault(name, figures)
    for better, kind in ((max, "cpu"), (max, "wall"), (min, "memory")):
        known[kind] = better(known[kind], figures[kind])


def publish(name, best, kind, scratch):
    """Prints the table of a contest and writes `NAME.json` for whoever sums up."""
    report = {"machine": machine.described(), "versions": peers.versions(), "best": best}
    (scratch / f"{name}.json").write_text(json.dumps(report, indent=1))
    unit = {"cpu": "MB per CPU-second", "wall": "MB per second of wall time"}[kind]
    versions = ", ".join(f"{package} {number}" for package, number in report["versions"].items())
    print(f"{unit}, {report['machine']}; {versions}\n\n{table(best, kind)}")


def table(best, kind):
    """Markdown: speeds, ours over each other's, and peaks in MB."""
    names = list(dict.fromkeys(name for rows in best.values() for name in rows))
    lines = ["| cell | " + " | ".join(names) + " | peak MB |", "|---" * (len(names) + 2) + "|"]
    for cell, rows in best.items():
        told = [_told(rows.get(name), rows["tokenmill"], kind) for name in names]
        peaks = " / ".join(f"{rows[name]['memory']:.0f}" if name in rows else "-" for name in names)
        lines.append(f"| {cell} | " + " | ".join(told) + f" | {peaks} |")
    return "\n".join(lines)


def _told(row, ours, kind):
    if row is None or not row["same"]:
        return "-" if row is None else "other output"
    return f"{row[kind]:.0f}" + ("" if row is ours else f" ({ours[kind] / row[kind]:.2f}x)")
