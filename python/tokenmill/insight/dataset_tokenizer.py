"""The tokenizer that a dataset was made with, found by what its manifest says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.base.errors import DatasetError, TokenizerError, TokenmillError

if TYPE_CHECKING:
    from tokenmill.datasets.ledger.manifest import Manifest


def load_dataset_tokenizer(manifest: Manifest, given: Any = None) -> Any:
    """`given`, or what the manifest names; raises an error of ours if it cannot be had.

    `DatasetError` if it gives other ids than the one that the dataset was made with.
    """
    found = given
    if found is None:
        from tokenmill.engine.tokenizer import Tokenizer

        try:
            found = Tokenizer.load(manifest.tokenizer.name, pattern=manifest.config.get("tokenizer.pattern"))
        except OSError as error:
            raise TokenizerError(f"{manifest.tokenizer.name} cannot be read: {error}") from error
    if found.fingerprint != manifest.tokenizer.fingerprint:
        raise DatasetError(
            f"{manifest.tokenizer.name if given is None else 'this tokenizer'} gives other ids than the one "
            f"that the dataset was made with: its fingerprint is {found.fingerprint[:16]}, the manifest has "
            f"{manifest.tokenizer.fingerprint[:16]}"
        )
    if found.vocab_size != manifest.tokenizer.vocab_size:
        raise DatasetError(
            f"the tokenizer has {found.vocab_size} ids, the manifest {manifest.tokenizer.vocab_size}: "
            "the manifest was changed"
        )
    return found


def find_dataset_tokenizer(manifest: Manifest) -> Any | None:
    """The same, or None where it is not at hand: it may be on another machine."""
    try:
        return load_dataset_tokenizer(manifest)
    except TokenmillError:
        return None
