"""Load the tokenizer that a dataset was made with: its copy, or the one that the manifest names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenmill.datasets.ledger.manifest import Manifest
from tokenmill.datasets.remote import fetch_copy
from tokenmill.errors import DatasetError, TokenizerError, TokenmillError
from tokenmill.tokenizer.files.kinds import needs_python
from tokenmill.tokenizer.tokenizer import Tokenizer


def load_dataset_tokenizer(address: str | Path, manifest: Manifest, given: Any = None) -> Any:
    """Return `given`, a tokenizer or its name, or the tokenizer of the dataset at `address`.

    Raise `DatasetError` if its ids differ from those of the dataset, `TokenmillError` if it cannot be loaded.
    """
    if given is not None:
        given = Tokenizer.load(given) if isinstance(given, str | Path) else given
        _check_same(manifest, given, "this tokenizer")
        return given
    copy = load_copy(address, manifest)
    return _load(manifest.tokenizer.name, manifest) if copy is None else copy


def load_copy(address: str | Path, manifest: Manifest) -> Any | None:
    """Return the copy that a dataset keeps, or None. Raise `DatasetError` if it is another tokenizer."""
    place = fetch_copy(address)
    if place is None:
        return None
    try:
        if needs_python(place):
            raise TokenizerError("it has no vocabulary")
        return _load(place, manifest)
    except TokenmillError as error:
        raise DatasetError(
            f"{place} is not the tokenizer that the dataset was made with: {error}. Delete that folder, and "
            "name the tokenizer"
        ) from error


def find_dataset_tokenizer(address: str | Path, manifest: Manifest) -> Any | None:
    """Return the tokenizer of a dataset, or None if it cannot be loaded on this machine."""
    try:
        return load_dataset_tokenizer(address, manifest)
    except TokenmillError:
        return None


def _load(source: str | Path, manifest: Manifest) -> Any:
    try:
        found = Tokenizer.load(source, pattern=manifest.config.get("tokenizer.pattern"))
    except OSError as error:
        raise TokenizerError(f"{source} cannot be read: {error}") from error
    _check_same(manifest, found, manifest.tokenizer.name)
    return found


def _check_same(manifest: Manifest, found: Any, name: str) -> None:
    expected = manifest.tokenizer
    if (found.fingerprint, found.vocab_size) != (expected.fingerprint, expected.vocab_size):
        raise DatasetError(
            f"{name} gives different ids from the one the dataset was made with: it has {found.vocab_size} "
            f"ids and the fingerprint {found.fingerprint[:16]}, the manifest has {expected.vocab_size} "
            f"ids and {expected.fingerprint[:16]}"
        )
