"""A receipt: the small JSON file that marks a shard as complete, with its counts of documents and tokens."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from tokenmill.base.durable import hash_file, publish_bytes
from tokenmill.base.records import Count, Record, encode_record, open_record, to_plain, validate
from tokenmill.errors import DatasetError
from tokenmill.sources.model import Reject

if TYPE_CHECKING:
    Counts = Counter[str]
else:
    Counts = Annotated[dict[str, Count], AfterValidator(Counter)]

RECEIPT_VERSION = 1
RECEIPTS = "receipts"
SHARDS = "shards"
# The groups of an account in JSON. Only a job of conversations has the last one.
_GROUPS = ("documents", "tokens", "learned")
_SHARD_KEYS = ("name", "unit", "documents", "tokens", "rows", "files")


@dataclass
class Account:
    """Counts of one unit, or the sum over many. See docs/format.md for the identities."""

    documents_read: Count = 0
    documents_written: Count = 0
    documents_dropped: Counts = field(default_factory=Counter)
    tokens_encoded: Count = 0
    tokens_added: Count = 0
    tokens_written: Count = 0
    tokens_repeated: Count = 0
    tokens_padding: Count = 0
    tokens_dropped: Counts = field(default_factory=Counter)
    rejected: Counts = field(default_factory=Counter)
    replaced: Counts = field(default_factory=Counter)
    input_bytes: Count = 0
    text_bytes: Count = 0
    special_strings: Count = 0
    # Trained tokens of conversations: read, written, repeated, dropped and by role.
    learned_read: Count = 0
    learned_written: Count = 0
    learned_repeated: Count = 0
    learned_dropped: Counts = field(default_factory=Counter)
    learned_roles: Counts = field(default_factory=Counter)
    # Parts of messages that a chat template does not write.
    learned_left_out: Counts = field(default_factory=Counter)

    @property
    def tokens_read(self) -> int:
        """Encoded tokens and the BOS and EOS that were added."""
        return self.tokens_encoded + self.tokens_added

    @property
    def tokens_stored(self) -> int:
        """Ids on disk: written once, repeated by overlap, and padding."""
        return self.tokens_written + self.tokens_repeated + self.tokens_padding

    def add(self, other: Account) -> None:
        """Add another account to this one."""
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def rewrite(self, new: Account) -> Account:
        """Return this account after a rewrite of its documents, with the results counted in `new`."""
        account = deepcopy(self)
        account.documents_written = account.learned_written = account.learned_repeated = 0
        account.tokens_written = account.tokens_repeated = account.tokens_padding = 0
        if new.tokens_read:  # other ids
            account.tokens_encoded = account.tokens_added = 0
            account.tokens_dropped.clear()
        account.add(new)
        return account

    def check(self) -> None:
        """Raise `DatasetError` unless read = written + dropped for documents, tokens and trained tokens."""
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
        """Return the object of docs/format.md: counts in groups, with derived sums."""
        value: dict[str, Any] = {
            "documents": {"read": self.documents_read},
            "tokens": {"read": self.tokens_read},
        }
        for name, count in vars(self).items():
            group, _, key = name.partition("_")
            plain = {key: count[key] for key in sorted(+count)} if isinstance(count, Counter) else count
            if group in _GROUPS:
                value.setdefault(group, {})[key] = plain
            else:
                value[name] = plain
        value["tokens"]["stored"] = self.tokens_stored
        if not self.learned_read:
            del value["learned"]
        return value


def _flatten_account(value: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of an account with its groups as fields, without the sums."""
    try:
        flat = {key: item for key, item in value.items() if key not in _GROUPS}
        for group in _GROUPS:
            flat |= {f"{group}_{key}": item for key, item in value.get(group, {}).items()}
    except AttributeError:
        raise ValueError("an object of counts in groups") from None
    return {key: item for key, item in flat.items() if key not in ("tokens_read", "tokens_stored")}


AccountField = Annotated[Account, BeforeValidator(_flatten_account)]


def _check_path(path: str) -> str:
    """Raise `ValueError` for a path outside the dataset's directory."""
    # A string: pathlib would double the time to open ten thousand shards.
    if not path or path[0] == "/" or "\\" in path or "\0" in path or ".." in path.split("/"):
        raise ValueError("a path inside the dataset's directory")
    return path


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a shard: its role, its path below the dataset's directory, its size and hash."""

    role: str
    path: Annotated[str, AfterValidator(_check_path)]
    bytes: Count
    sha256: str
    items: Count | None = None
    """The number of items, for formats whose index lists it."""

    def find_size(self, root: Path) -> int | None:
        """Return the size of the file below `root`, or None if it is missing."""
        try:
            return os.stat(os.path.join(root, self.path)).st_size  # noqa: PTH116, PTH118 - pathlib is 10x slower
        except FileNotFoundError:
            return None

    def check_size(self, root: Path, *, hashed: bool = False) -> None:
        """Raise `DatasetError` unless the file exists with its recorded size and, if `hashed`, its hash."""
        found = self.find_size(root)
        if found != self.bytes:
            state = "is missing" if found is None else f"has {found} bytes"
            raise DatasetError(
                f"{root / self.path} {state}, the manifest promises {self.bytes} bytes: the shard is damaged "
                "or half copied. Copy it again, or run the prepare command again"
            )
        if hashed and (now := hash_file(root / self.path)) != self.sha256:
            raise DatasetError(f"{self.path} has changed since it was written: SHA-256 {now}. Copy it again")


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """The record of one shard for readers."""

    name: str
    unit: str
    documents: Count
    tokens: Count
    rows: Count
    files: tuple[FileEntry, ...]

    def file(self, role: str) -> FileEntry:
        """Return the file of that role, or raise `DatasetError` with the existing roles."""
        for entry in self.files:
            if entry.role == role:
                return entry
        roles = ", ".join(entry.role for entry in self.files)
        raise DatasetError(f"shard {self.name} has no file of role {role!r}, only {roles}")


@dataclass(frozen=True, slots=True)
class Receipt(Record):
    """A finished unit: its shard, its account, its first bad records, and the records of each part."""

    ordinal: Count
    shard: ShardEntry
    account: AccountField
    rejects: tuple[Reject, ...] = ()
    records: tuple[Count, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the object of docs/format.md, version first, the shard's own keys among the others."""
        return {
            "receipt_version": RECEIPT_VERSION,
            "ordinal": self.ordinal,
            **to_plain(self.shard, exclude_none=True),  # `items` only where it is known
            "account": self.account.to_json(),
            "rejects": to_plain(self.rejects),
            "records": list(self.records),
        }


def parse_receipt(data: bytes, where: str) -> Receipt:
    """Return the receipt in a file. Raise `DatasetError` if it is corrupt or of another version."""
    value = open_record(data, where, "receipt_version", RECEIPT_VERSION)
    value["shard"] = {key: value.pop(key) for key in _SHARD_KEYS if key in value}
    return validate(Receipt, value, where)


def receipt_name(shard: str) -> str:
    """Return the path of a shard's receipt in its dataset: `"00000-9f…"` -> `receipts/00000-9f….json`."""
    return f"{RECEIPTS}/{shard}.json"


def save_receipt(root: Path, receipt: Receipt) -> None:
    """Publish a receipt. The shard's files must be published first."""
    publish_bytes(root / receipt_name(receipt.shard.name), encode_record(receipt.to_json()))


def load_receipt(root: Path, shard: str, unit: str, sizes: Mapping[str, int] | None = None) -> Receipt | None:
    """Return the receipt of a shard if it is valid, of this unit, and every file has its recorded size.

    Return None for a corrupt receipt, so that its unit is processed again. `sizes` are the file sizes of a
    remote dataset, whose shards are not below `root`.
    """
    path = root / receipt_name(shard)
    try:
        receipt = parse_receipt(path.read_bytes(), str(path))
    except (FileNotFoundError, DatasetError):
        return None
    files = receipt.shard.files
    found = [entry.find_size(root) if sizes is None else sizes.get(entry.path) for entry in files]
    whole = found == [entry.bytes for entry in files]
    return receipt if whole and receipt.shard.unit == unit else None
