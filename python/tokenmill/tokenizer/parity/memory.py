"""Comparisons with Hugging Face that came out equal, so that the same job need not make the same one again.

A comparison is known by everything that it depends on: the tokenizer's fingerprint, this build of the core,
the version of HF `tokenizers`, how special tokens are read, and the documents. A difference is never
remembered.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill import _core
from tokenmill.base.hardware.cache import cache_root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill.tokenizer.tokenizer import Tokenizer

# Per tokenizer: the samples of the last jobs.
KEPT = 64


class ParityMemory:
    """Whether native and Hugging Face gave the same ids for a sample before; forgets when either changes."""

    def __init__(self, tokenizer: Tokenizer, sample: Sequence[str], special: str) -> None:
        self._path = cache_root() / "parity" / f"{tokenizer.fingerprint}.txt"
        digest = hashlib.blake2b(digest_size=16)
        for part in (_identify_build(), _find_hf_version(), special, *sample):
            data = part.encode()
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        self._key = digest.hexdigest()

    def has_agreed(self) -> bool:
        """True if this very comparison was made and no id differed."""
        return self._key in self._read_keys()

    def remember(self) -> None:
        """Note that no id differed; without a place to write it is compared again next time."""
        keys = [*(key for key in self._read_keys() if key != self._key), self._key][-KEPT:]
        temporary = self._path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text("\n".join(keys) + "\n")
            temporary.replace(self._path)

    def _read_keys(self) -> list[str]:
        try:
            return self._path.read_text().split()
        except (OSError, UnicodeDecodeError):
            return []


def _identify_build() -> str:
    """This build of the core: a rebuilt one has another time or size, whatever its version says."""
    status = Path(_core.__file__).stat()
    return f"{_core.__version__}-{status.st_size}-{status.st_mtime_ns}"


def _find_hf_version() -> str:
    """The name of its metadata directory; the module that reads such directories takes longer to import."""
    found = find_spec("tokenizers")
    if found is None or found.origin is None:
        return "none"
    place = Path(found.origin)
    named = sorted(path.name for path in place.parent.parent.glob("tokenizers-*.dist-info"))
    return " ".join(named) or str(place.stat().st_mtime_ns)
