"""The account of a shard or a dataset: every document and token that came in was written or has a reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tokenmill.base.errors import DatasetError


@dataclass
class Account:
    """Counts of one unit while it runs, or the sum of many; docs/format.md has the identities."""

    documents_read: int = 0
    documents_written: int = 0
    documents_dropped: Counter[str] = field(default_factory=Counter)
    tokens_encoded: int = 0
    tokens_added: int = 0
    tokens_written: int = 0
    tokens_repeated: int = 0
    tokens_padding: int = 0
    tokens_dropped: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    replaced: Counter[str] = field(default_factory=Counter)
    input_bytes: int = 0
    text_bytes: int = 0
    special_strings: int = 0

    @property
    def tokens_read(self) -> int:
        """Encoded tokens and the BOS and EOS that were added."""
        return self.tokens_encoded + self.tokens_added

    @property
    def tokens_stored(self) -> int:
        """Ids on the disk: written once, repeated by overlap, and padding."""
        return self.tokens_written + self.tokens_repeated + self.tokens_padding

    def add(self, other: Account) -> None:
        """Add another account to this one."""
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def check(self) -> None:
        """Raise unless read = written + dropped, for documents and for tokens."""
        for what, read, written, dropped in (
            ("documents", self.documents_read, self.documents_written, self.documents_dropped),
            ("tokens", self.tokens_read, self.tokens_written, self.tokens_dropped),
        ):
            if read != written + dropped.total():
                raise DatasetError(
                    f"the account of {what} does not balance: {read} read, {written} written, "
                    f"{dict(dropped)} dropped; please report this with the input"
                )

    def to_json(self) -> dict[str, Any]:
        """The object of docs/format.md."""
        return {
            "documents": {
                "read": self.documents_read,
                "written": self.documents_written,
                "dropped": _sorted(self.documents_dropped),
            },
            "tokens": {
                "read": self.tokens_read,
                "encoded": self.tokens_encoded,
                "added": self.tokens_added,
                "written": self.tokens_written,
                "repeated": self.tokens_repeated,
                "padding": self.tokens_padding,
                "stored": self.tokens_stored,
                "dropped": _sorted(self.tokens_dropped),
            },
            "rejected": _sorted(self.rejected),
            "replaced": _sorted(self.replaced),
            "input_bytes": self.input_bytes,
            "text_bytes": self.text_bytes,
            "special_strings": self.special_strings,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Account:
        """The inverse of `to_json`; sums such as `read` are computed again, not believed."""
        documents, tokens = value["documents"], value["tokens"]
        return cls(
            documents_read=documents["read"],
            documents_written=documents["written"],
            documents_dropped=Counter(documents["dropped"]),
            tokens_encoded=tokens["encoded"],
            tokens_added=tokens["added"],
            tokens_written=tokens["written"],
            tokens_repeated=tokens["repeated"],
            tokens_padding=tokens["padding"],
            tokens_dropped=Counter(tokens["dropped"]),
            rejected=Counter(value["rejected"]),
            replaced=Counter(value["replaced"]),
            input_bytes=value["input_bytes"],
            text_bytes=value["text_bytes"],
            special_strings=value["special_strings"],
        )


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {reason: counts[reason] for reason in sorted(counts) if counts[reason]}
