"""Where an interrupted training resumes: the merges so far and, where counting was expensive, the counts.

Merges follow from counts and options alone, so a checkpoint needs nothing else: the steps are done again
without being chosen again. A folder `.training` beside the output holds it until the training is finished.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.base.durable import digest, publish_bytes, publish_json
from tokenmill.errors import ResumeError

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ".training"
_JOB, _STEPS, _COUNTS = "job.json", "steps.npy", "counts.parquet"


class Checkpoint:
    """The state of one training in a folder of its own; `Checkpoint(None)` keeps nothing."""

    def __init__(self, output: Path | None, job: dict[str, Any] | None = None) -> None:
        self.folder = None if output is None else output / FOLDER
        self._job = job or {}
        self._counts: dict[str, int] | None = None

    @property
    def counts(self) -> Path | None:
        """Where the counts are or would be."""
        return None if self.folder is None else self.folder / _COUNTS

    def begin(self, *, resume: bool) -> np.ndarray[Any, np.dtype[np.uint32]] | None:
        """Start over, or return the steps of the interrupted run if `resume` and it was the same job."""
        if self.folder is None:
            return None
        if not resume or not (self.folder / _JOB).is_file():
            self.remove()
            return None
        try:
            found = json.loads((self.folder / _JOB).read_text(encoding="utf-8"))
            self._refuse_other(found["job"])
            self._counts = found.get("counts")
            path = self.folder / _STEPS
            return _unpack(path.read_bytes()) if path.is_file() else np.empty(0, np.uint32)
        except ResumeError:
            raise
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise ResumeError(
                f"{self.folder} is damaged ({error}); run without --resume to start over"
            ) from error

    def _refuse_other(self, found: dict[str, Any]) -> None:
        names = sorted(found.keys() | self._job.keys())
        differ = [name for name in names if digest(found.get(name)) != digest(self._job.get(name))]
        if differ:
            raise ResumeError(
                f"{self.folder} belongs to another training: {', '.join(differ)} differ; run without "
                "--resume to start over, or name another output"
            )

    def compare_counts(self, figures: dict[str, int]) -> None:
        """Raise `ResumeError` if the steps are of other counts: objects in memory can change unseen."""
        if self._counts not in (None, figures):
            raise ResumeError(
                f"{self.folder} belongs to a training on other documents: it had counted {self._counts}, and "
                f"now there are {figures}; run without --resume to start over"
            )
        self._counts = figures

    def open(self) -> None:
        """Write down which training this is."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            publish_json(self.folder / _JOB, {"version": 1, "job": self._job, "counts": self._counts})

    def save(self, steps: np.ndarray[Any, np.dtype[np.uint32]]) -> None:
        """Put the steps so far on disk."""
        if self.folder is not None:
            if not (self.folder / _JOB).is_file():
                self.open()
            publish_bytes(self.folder / _STEPS, _pack(steps))

    def remove(self) -> None:
        """Forget everything."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _pack(steps: np.ndarray[Any, np.dtype[np.uint32]]) -> bytes:
    """An npy file followed by its checksum: other steps would be another vocabulary."""
    buffer = io.BytesIO()
    np.save(buffer, steps, allow_pickle=False)
    return buffer.getvalue() + hashlib.sha256(buffer.getvalue()).digest()


def _unpack(data: bytes) -> np.ndarray[Any, np.dtype[np.uint32]]:
    content, checksum = data[:-32], data[-32:]
    if hashlib.sha256(content).digest() != checksum:
        raise ValueError("the checksum of the merges so far does not match")
    steps: np.ndarray[Any, np.dtype[np.uint32]] = np.load(io.BytesIO(content), allow_pickle=False)
    return steps
