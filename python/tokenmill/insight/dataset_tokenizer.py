"""The tokenizer that a dataset was made with, found by what its manifest says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.base.errors import DatasetError, TokenizerError, TokenmillError

if TYPE_CHECKING:
    from tokenmill.datasets.ledger.manifest import Manifest, TokenizerIdentity


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
    check_same_tokenizer(manifest.tokenizer, found, given=given is not None)
    return found


def check_same_tokenizer(identity: TokenizerIdentity, found: Any, *, given: bool) -> None:
    """Raise `DatasetError` if a tokenizer gives other ids than the one with that identity."""
    if found.fingerprint != identity.fingerprint:
        raise DatasetError(
            f"{'this tokenizer' if given else identity.name} gives other ids than the one "
            f"that the dataset was made with: its fingerprint is {found.fingerprint[:16]}, the manifest has "
            f"{identity.fingerprint[:16]}"
        )
    if found.vocab_size != identity.vocab_size:
        raise DatasetError(
            f"the tokenizer has {found.vocab_size} ids, the manifest {identity.vocab_size}: "
            "the manifest was changed"
        )


def find_dataset_tokenizer(manifest: Manifest) -> Any | None:
    """The same, or None where it is not at hand: it may be on another machine."""
    try:
        return load_dataset_tokenizer(manifest)
    except TokenmillError:
        return None
