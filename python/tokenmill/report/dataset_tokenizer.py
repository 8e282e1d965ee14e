"""The tokenizer that a dataset was made with: the copy that it keeps, or what its manifest names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.datasets.remote import fetch_copy
from tokenmill.errors import DatasetError, TokenizerError, TokenmillError

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.datasets.ledger.manifest import Manifest, TokenizerIdentity


def load_dataset_tokenizer(address: str | Path, manifest: Manifest, given: Any = None) -> Any:
    """`given`, or the tokenizer of the dataset at `address`; raises `TokenmillError` if it cannot be loaded.

    Raises `DatasetError` if it gives different ids from the one the dataset was made with.
    """
    if given is None:
        return load_identified(address, manifest.tokenizer, manifest.config.get("tokenizer.pattern"))
    check_same_tokenizer(manifest.tokenizer, given, given=True)
    return given


def load_identified(address: str | Path, identity: TokenizerIdentity, pattern: str | None) -> Any:
    """The tokenizer with that identity: the copy at `address` if it is right, else the one at its name."""
    wrong = None
    try:
        found = load_copy(address, identity, pattern)
        if found is not None:
            return found
    except TokenmillError as error:
        wrong = error
    try:
        found = _load(identity.name, pattern)
        check_same_tokenizer(identity, found, given=False)
    except TokenmillError as error:
        if wrong is None:
            raise
        raise DatasetError(f"{wrong}; nor can it be loaded by its name: {error}") from error
    return found


def load_copy(address: str | Path, identity: TokenizerIdentity, pattern: str | None) -> Any | None:
    """The copy that a dataset keeps; None if it keeps none, `DatasetError` if it is another tokenizer."""
    place = fetch_copy(address)
    if place is None:
        return None
    from tokenmill.tokenizer.loading import needs_python

    try:
        if needs_python(place):
            raise TokenizerError("it holds no vocabulary")
        found = _load(place, pattern)
        check_same_tokenizer(identity, found, given=False)
    except TokenmillError as error:
        raise DatasetError(
            f"{place} is not the tokenizer that the dataset was made with: {error}. Delete that folder, and "
            "name the tokenizer"
        ) from error
    return found


def _load(source: str | Path, pattern: str | None) -> Any:
    from tokenmill.tokenizer.tokenizer import Tokenizer

    try:
        return Tokenizer.load(source, pattern=pattern)
    except OSError as error:
        if isinstance(error, TokenmillError):
            raise
        raise TokenizerError(f"{source} cannot be read: {error}") from error


def check_same_tokenizer(identity: TokenizerIdentity, found: Any, *, given: bool) -> None:
    """Raise `DatasetError` if a tokenizer gives different ids from the one with that identity."""
    if found.fingerprint != identity.fingerprint:
        raise DatasetError(
            f"{'this tokenizer' if given else identity.name} gives different ids from the one "
            f"the dataset was made with: its fingerprint is {found.fingerprint[:16]}, the manifest has "
            f"{identity.fingerprint[:16]}"
        )
    if found.vocab_size != identity.vocab_size:
        raise DatasetError(
            f"the tokenizer has {found.vocab_size} ids, the manifest {identity.vocab_size}: "
            "the manifest was changed"
        )


def find_dataset_tokenizer(address: str | Path, manifest: Manifest) -> Any | None:
    """The tokenizer of a dataset, or None if it cannot be loaded: it may be on another machine."""
    try:
        return load_dataset_tokenizer(address, manifest)
    except TokenmillError:
        return None
