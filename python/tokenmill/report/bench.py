"""One tokenizer, some texts: us beside every peer that is installed, ids compared before any timing."""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import tokenmill
from tokenmill.base.words import find_version
from tokenmill.report.page import draw_bars
from tokenmill.tokenizer.engines.huggingface import HfTokenizer
from tokenmill.tokenizer.files.names import TOKENIZER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tokenmill.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class Speed:
    """Millions of bytes per CPU second and per second."""

    cpu: float
    wall: float


def time_encoding(action: Callable[[list[str]], Any], texts: list[str], size: int) -> tuple[Any, Speed]:
    """Call once and read both clocks."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = action(texts)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return result, Speed(size / 1e6 / max(cpu, 1e-9), size / 1e6 / max(wall, 1e-9))


def digest(lists: Iterable[Any]) -> str:
    """One hash of the ids of all documents, to compare encoders by."""
    running = hashlib.blake2b(digest_size=16)
    for ids in lists:
        running.update(len(ids).to_bytes(8, "little"))
        running.update(np.asarray(ids, dtype="<u4").tobytes())
    return running.hexdigest()


def bench(tokenizer: Tokenizer, texts: list[str], *, turns: int = 3, threads: int = 1) -> dict[str, Any]:
    """Each encoder takes its turn; the best turn counts; one that gives different ids is named and not timed.

    `spread` is how far the slowest turn was behind the best, in per cent: a smaller difference means nothing.
    """
    size = sum(len(text.encode()) for text in texts)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tokenmill-bench-") as folder:
        tokenizer.save(folder)
        encoders = _open_encoders(tokenizer, Path(folder) / TOKENIZER, threads)
        expected = digest(encoders["tokenmill"](texts))
        for name, encode in encoders.items():
            same = _compare_ids(encode, texts, expected)
            version = tokenmill.__version__ if name == "tokenmill" else find_version(name) or "?"
            rows.append({"name": name, "version": version, "same_ids": same, "turns": []})
        for _ in range(turns):
            for row in rows:
                if row["same_ids"] is True:
                    row["turns"].append(time_encoding(encoders[row["name"]], texts, size)[1])
    for row in rows:
        done: list[Speed] = row.pop("turns")
        row["cpu"] = max((speed.cpu for speed in done), default=0.0)
        row["wall"] = max((speed.wall for speed in done), default=0.0)
        slowest = min((speed.wall for speed in done), default=0.0)
        row["spread"] = 100 * (1 - slowest / row["wall"]) if row["wall"] else None
        row["times_faster"] = rows[0]["wall"] / row["wall"] if row["wall"] else None
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "threads": threads,
        "documents": len(texts),
        "bytes": size,
        "rows": rows,
    }


def draw_chart(result: dict[str, Any]) -> str:
    """The result as an SVG chart, for a page or a file."""
    rows = [row for row in result["rows"] if row["wall"]]
    return draw_bars([row["name"] for row in rows], [row["wall"] for row in rows], "MB per second")


def _open_encoders(tokenizer: Tokenizer, path: Path, threads: int) -> dict[str, Any]:
    """Ours first, then what can be imported; each as its own documentation says is fastest for lists."""
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    found: dict[str, Any] = {
        "tokenmill": lambda texts: tokenizer.encode_batch(texts, special="text", threads=threads).to_lists()
    }
    for name, make in (
        ("gigatoken", _open_gigatoken),
        ("fastokens", _open_fastokens),
        ("tokenizers", _open_tokenizers),
    ):
        try:
            found[name] = make(path, threads)
        except ImportError:
            continue
    return found


def _open_gigatoken(path: Path, threads: int) -> Any:
    import gigatoken

    peer = gigatoken.Tokenizer(str(path))
    return lambda texts: peer.encode_batch_list(texts, parallel=threads > 1)


def _open_fastokens(path: Path, _threads: int) -> Any:
    import fastokens

    peer = fastokens.Tokenizer.from_file(str(path))
    return lambda texts: [encoding.ids for encoding in peer.encode_batch(texts)]


def _open_tokenizers(path: Path, _threads: int) -> Any:
    peer = HfTokenizer(path.read_text(encoding="utf-8"), str(path))
    return lambda texts: peer.encode_lists(texts, as_text=True, template=False)


def _compare_ids(encode: Any, texts: list[str], expected: str) -> bool | str:
    """True, False, or the peer's own error: a peer that fails is a row of the table, not the end of it."""
    try:
        return digest(encode(texts)) == expected
    except Exception as error:  # noqa: BLE001 - a foreign package may raise anything
        return f"{type(error).__name__}: {error}"[:120]
