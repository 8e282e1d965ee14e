"""Texts that must keep their ids: which merges they rule out, and the proof that they were kept.

All new merges come after all old ones, so a text is encoded as before and then, if anything, merged further.
It changes only if two neighbouring old tokens inside one of its pieces become a new one. The pairs of
neighbours in the kept texts are therefore all that must stay apart; that they do is shown by encoding again.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.sources.raw import RawFile
from tokenmill.vocab.words import join_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.training.counting import Corpus
    from tokenmill.vocab.places import NewToken
    from tokenmill.vocab.words import Words


@dataclass(frozen=True)
class Certificate:
    """What was encoded again, and how much of it changed."""

    files: tuple[dict[str, Any], ...]
    documents: int
    changed: int
    allowed: int

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


def join_pairs(pairs: Sequence[tuple[int, int]]) -> NDArray[np.uint64]:
    """Pairs of ids as `left << 32 | right`."""
    left, right = np.array(pairs, np.uint64).reshape(-1, 2).T
    return join_ids(left, right)


def spend_budget(
    base: Tokenizer, corpus: Corpus, words: Words, apart: NDArray[np.uint64], share: float
) -> NDArray[np.uint64]:
    """`apart` without the pairs that gain most for the few documents that they change.

    Pairs are released by how often the new texts hold them for each kept document that would change, as
    long as all the changed documents together are within `share` of the kept ones.
    """
    wanted, gain = words.count_pairs()
    useful = np.isin(wanted, apart)
    wanted, gain = wanted[useful], gain[useful]
    homes: dict[int, set[int]] = {int(pair): set() for pair in wanted}
    documents = 0
    for block in corpus.read_blocks():
        batch = base.encode_batch(block.texts, special="text")
        joined = join_ids(batch.ids[:-1], batch.ids[1:])
        home = np.repeat(np.arange(len(batch)), batch.lengths)
        for place in np.flatnonzero(np.isin(joined, wanted) & (home[:-1] == home[1:])).tolist():
            homes[int(joined[place])].add(documents + int(home[place]))
        documents += len(batch)
    most, changed = int(documents * share), set[int]()
    released = []
    for place in np.argsort(
        -(gain / np.maximum(1, [len(homes[int(pair)]) for pair in wanted])), kind="stable"
    ):
        pair = int(wanted[place])
        if len(changed | homes[pair]) <= most:
            changed |= homes[pair]
            released.append(pair)
    return np.setdiff1d(apart, np.array(released, np.uint64))


def count_changed(extended: Tokenizer, new: Sequence[NewToken], corpus: Corpus) -> tuple[int, int, set[int]]:
    """(documents, documents that changed, the new ids in them), by encoding every one of them."""
    is_new = np.zeros(extended.vocab_size, bool)
    is_new[[token.id for token in new]] = True
    documents = changed = 0
    seen: set[int] = set()
    for block in corpus.read_blocks():
        batch = extended.encode_batch(block.texts, special="text")
        places = np.flatnonzero(is_new[batch.ids])
        changed += len(np.unique(np.searchsorted(batch.offsets, places, side="right")))
        seen |= set(np.unique(batch.ids[places]).tolist())
        documents += len(batch)
    return documents, changed, seen


def hash_files(corpus: Corpus) -> tuple[dict[str, Any], ...]:
    """Which files were kept, by what is in them; data in memory has only its name."""
    if corpus.in_memory:
        return tuple(corpus.identify())
    found = []
    for file in corpus.files:
        with RawFile(file) as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
        found.append({"path": file.url, "bytes": file.size, "sha256": digest})
    return tuple(found)
