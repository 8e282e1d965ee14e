"""How a job went, in numbers and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenmill.base.console import lines

if TYPE_CHECKING:
    from tokenmill.datasets.reader.dataset import Dataset


@dataclass(frozen=True)
class Outcome:
    """What a call came to: the dataset, the seconds it took, and whether anything was to do."""

    dataset: Dataset
    seconds: float
    worked: bool

    def summary(self) -> dict[str, Any]:
        """Everything that the end of a job tells, as numbers and words."""
        manifest = self.dataset.manifest
        examples = manifest.account.documents_read
        rate = examples / self.seconds if self.seconds > 0 else 0.0
        return {
            "path": self.dataset.address,
            "documents": manifest.documents,
            "tokens": manifest.tokens,
            "rows": manifest.rows,
            "shards": len(manifest.shards),
            "examples": examples,
            "seconds": round(self.seconds, 3),
            "examples_per_second": round(rate, 1),
            "rating": lines.rating(rate),
            "worked": self.worked,
            "content_hash": manifest.content_hash,
            "account": manifest.account.to_json(),
        }
