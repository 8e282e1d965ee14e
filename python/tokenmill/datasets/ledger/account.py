"""The account of a shard or a dataset: every document and token that came in was written or has a reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tokenmill.datasets.ledger.record import Record
from tokenmill.errors import DatasetError

_GROUPS = ("documents", "tokens")
# What a job of conversations counts besides; other accounts do not mention it.
_LEARNED = "learned"


@dataclass
class Account(Record):
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
    # Tokens that a loss mask has: all of them, by role, and what became of them.
    learned_read: int = 0
    learned_written: int = 0
    learned_repeated: int = 0
    learned_dropped: Counter[str] = field(default_factory=Counter)
    learned_roles: Counter[str] = field(default_factory=Counter)

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
        """Raise unless read = written + dropped, for documents, for tokens and for those that are learned."""
        for what, read, written, dropped in (
            ("documents", self.documents_read, self.documents_written, self.documents_dropped),
            ("tokens", self.tokens_read, self.tokens_written, self.tokens_dropped),
            ("learned tokens", self.learned_read, self.learned_written, self.learned_dropped),
        ):
            if read != written + dropped.total():
                raise DatasetError(
                    f"the account of {what} does not balance: {read} read, {written} written, "
                    f"{dict(dropped)} dropped; please report this with the input"
                )

    def to_json(self) -> dict[str, Any]:
        """The object of docs/format.md: documents and tokens in groups, with the sums that follow."""
        groups: dict[str, Any] = {group: {"read": getattr(self, f"{group}_read")} for group in _GROUPS}
        for name, value in vars(self).items():
            group, _, key = name.partition("_")
            plain = {key: value[key] for key in sorted(+value)} if isinstance(value, Counter) else value
            if group in (*_GROUPS, _LEARNED):
                groups.setdefault(group, {})[key] = plain
            else:
                groups[name] = plain
        groups["tokens"]["stored"] = self.tokens_stored
        if not self.learned_read:
            del groups[_LEARNED]
        return groups

    @classmethod
    def reshape(cls, value: Any) -> Any:
        """Groups taken apart; sums such as `stored` are computed again, not trusted."""
        if not isinstance(value, dict) or not all(isinstance(value.get(group), dict) for group in _GROUPS):
            return value
        taught = value.get(_LEARNED)
        groups = {group: value[group] for group in _GROUPS}
        groups |= {_LEARNED: taught} if isinstance(taught, dict) else {}
        return value | {f"{group}_{key}": item for group in groups for key, item in groups[group].items()}
