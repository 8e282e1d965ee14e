"""Encoders side by side: each turn of each is a process of its own, and outputs are compared before a figure counts.

A script gives a function `cells(name)` that yields `(cell, action, megabytes)`; a cell that is yielded again is measured
again. `take_turns` forks for every turn of every encoder, so that all find the same inputs in memory, and none of them
anything that another has left behind. Figures: MB per CPU-second (`cpu`) and per second (`wall`), the best of the
turns; `memory`, the most MB that the process held in addition to the inputs, from loading the encoder to the end of the cell,
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
# A fork must not inherit a thread pool.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

import corpora  # noqa: E402
import machine  # noqa: E402
import peers  # noqa: E402

# How near the best two turns are in a figure that is believed.
SETTLED = 1.05


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


def take_turns(cells, names, turns, threads=1, kind="cpu"):
    """{cell: {encoder: {cpu, wall, memory, same}}}; an encoder that fails, or gives other ids, is reported.

    On a noisy machine the best of a few turns is luck: an encoder whose best two are not `SETTLED` gets half as many more.
    """
    _give_back()
    best = {}
    for turn in range(turns + turns // 2):
        for name in names if turn < turns else _unsettled(best, names, kind):
            is_new = not any(name in rows for rows in best.values())
            found, problem = _forked(cells, name, threads, is_new)
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


def _unsettled(best, names, kind):
    """Who has a cell in which the best turn is far ahead of the second best."""
    runs = {
        name: [sorted(rows[name]["runs"][kind]) for rows in best.values() if name in rows] for name in names
    }
    return [name for name, cells in runs.items() if any(len(c) < 2 or c[-1] > SETTLED * c[-2] for c in cells)]


def _give_back():
    """Memory that this process has freed but keeps would be found by every child, and missing in its peak."""
    gc.collect()
    gc.freeze()
    pa.default_memory_pool().release_unused()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def _forked(cells, name, threads, compare):
    """What `_measure` finds in a child; with the child's last words where it did not end well."""
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.dup2(errors.fileno(), 2)
                os.environ["RAYON_NUM_THREADS"] = str(threads)
                _measure(cells(name), told, compare)
                status = 0
            except BaseException as error:  # noqa: BLE001 - the parent reports it
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
        *_, last = errors.read().strip().splitlines() or [f"ended with {os.waitstatus_to_exitcode(status)}"]
    return found, last[:200] if status else ""


def _measure(cells, told, compare):
    """Runs every cell and writes a line for it; the first turn of an encoder also says what came out."""
    before = _status("VmRSS")
    highest = 0.0
    for cell, action, size in cells:
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        result = action()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        highest = max(highest, _status("VmHWM"))
        figures = {"cpu": size / cpu, "wall": size / wall, "memory": highest - before}
        if compare:
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
    """One hash of bytes, of texts, or of the ids of all documents and where each ends, whatever holds them."""
    if isinstance(result, bytes):
        return hashlib.blake2b(result, digest_size=16).hexdigest()
    if isinstance(result, list) and isinstance(result[0], str):
        result = [np.frombuffer(text.encode(), np.uint8) for text in result]
    if isinstance(result, tuple):
        ids, offsets = result
        lengths = np.diff(np.asarray(offsets))
    elif isinstance(result, list):
        ids = np.concatenate([np.asarray(document, np.uint32) for document in result])
        lengths = [len(document) for document in result]
    else:
        import awkward

        ids, lengths = awkward.to_numpy(awkward.flatten(result)), awkward.to_numpy(awkward.num(result))
    running = hashlib.blake2b(np.asarray(lengths, np.uint64), digest_size=16)
    running.update(np.ascontiguousarray(ids, np.uint32))
    return running.hexdigest()


def _keep(rows, name, figures):
    if name not in rows:
        rows[name] = figures | {"runs": {kind: [figures[kind]] for kind in ("cpu", "wall")}}
        return
    known = rows[name]
    for better, kind in ((max, "cpu"), (max, "wall"), (min, "memory")):
        known[kind] = better(known[kind], figures[kind])
    for kind, runs in known["runs"].items():
        runs.append(figures[kind])


def publish(name, best, kind, scratch, versions=None):
    """Print the table of a contest and write `NAME.json`, from which `bars.py` reads."""
    report = {"machine": machine.described(), "versions": versions or peers.versions(), "best": best}
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
