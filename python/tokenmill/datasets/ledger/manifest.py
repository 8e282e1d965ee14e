"""The manifest: the one file that a reader opens first, with everything it needs to map the shards."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tokenmill.base.durable import digest, publish_bytes
from tokenmill.datasets.columns import find_column
from tokenmill.datasets.formats.format import DTYPES, find_format
from tokenmill.datasets.ledger.account import Account
from tokenmill.datasets.ledger.receipt import RECEIPTS, ShardEntry
from tokenmill.datasets.ledger.record import Record, check_seal, check_version, encode_record, parse_record
from tokenmill.errors import DatasetError
from tokenmill.sources.model import Reject

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
PLAN = "plan.json"
KIND = "tokenmill-dataset"
MAX_REJECT_PLACES = 100
KEYS = (
    "format_version",
    "kind",
    "format",
    "layout",
    "dtype",
    "tokenizer",
    "packing",
    "config",
    "config_fingerprint",
    "account",
    "rejects",
    "inputs",
    "shards",
    "content_hash",
)
Layout = Literal["documents", "rows"]


@dataclass(frozen=True, slots=True)
class TokenizerIdentity(Record):
    """The vocabulary behind the ids: a name for people, a fingerprint for machines."""

    name: str
    fingerprint: str
    vocab_size: int


@dataclass(frozen=True, slots=True)
class PackingIdentity(Record):
    """How ids became rows, with the ids that were resolved from names such as `<|endoftext|>`."""

    mode: str
    context_length: int | None = None
    overlap: int = 0
    tail: str = "pad"
    bos_id: int | None = None
    eos_id: int | None = None
    pad_id: int | None = None
    columns: tuple[str, ...] = ()

    @property
    def layout(self) -> Layout:
        """`documents` for `stream`, `rows` for everything else."""
        return "documents" if self.mode == "stream" else "rows"

    @property
    def row_length(self) -> int | None:
        """Return the length of rows, or None for documents."""
        return None if self.mode == "stream" else self.context_length


@dataclass(frozen=True, slots=True)
class InputEntry(Record):
    """One input of the job, with what tells whether it has changed since."""

    path: str
    size: int
    identity: str


@dataclass(frozen=True, slots=True)
class Manifest(Record):
    """What a finished dataset says of itself: `Dataset.manifest`; readers open nothing before it.

    >>> import tokenmill
    >>> texts = ["a text", ""]
    >>> made = tokenmill.prepare(dataset=texts, tokenizer=tokenizer, output="out", verbose_level="ERROR")
    >>> made.manifest.documents, made.manifest.account.documents_read, made.manifest.packing.mode
    (1, 2, 'stream')
    """

    format: str
    dtype: str
    tokenizer: TokenizerIdentity
    packing: PackingIdentity
    config: dict[str, Any]
    account: Account
    rejects: tuple[Reject, ...]
    inputs: tuple[InputEntry, ...]
    shards: tuple[ShardEntry, ...]

    @property
    def layout(self) -> Layout:
        """`documents` or `rows`."""
        return self.packing.layout

    @property
    def documents(self) -> int:
        """Documents in all shards."""
        return sum(shard.documents for shard in self.shards)

    @property
    def tokens(self) -> int:
        """Token ids stored in all shards, padding included."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def rows(self) -> int:
        """Rows in all shards; 0 for documents."""
        return sum(shard.rows for shard in self.shards)

    @property
    def content_hash(self) -> str:
        """One hash for the whole dataset: equal content hashes mean equal bytes in every shard."""
        return content_hash(self.shards)

    def to_json(self) -> dict[str, Any]:
        """The object of docs/format.md, version first."""
        more = {
            "format_version": FORMAT_VERSION,
            "kind": KIND,
            "layout": self.layout,
            "config_fingerprint": digest(self.config),
            "content_hash": self.content_hash,
        }
        value = Record.to_json(self) | more
        return {key: value[key] for key in KEYS}

    def check(self, value: dict[str, Any]) -> None:
        """Raise `DatasetError` if `value`, its JSON, contradicts itself or has impossible values."""
        for key, found in (
            ("layout", self.layout),
            ("config_fingerprint", digest(self.config)),
            ("content_hash", self.content_hash),
        ):
            if value.get(key) != found:
                raise DatasetError(f"{key} is {value.get(key)!r}, but the rest of it gives {found!r}")
        find_format(self.format)
        if self.dtype not in DTYPES:
            raise DatasetError(f"dtype is {self.dtype!r}, expected one of {', '.join(DTYPES)}")
        if self.layout == "rows" and not self.packing.context_length:
            raise DatasetError(f"its rows have a context_length of {self.packing.context_length}")
        for name in self.packing.columns:
            find_column(name)
        for entry in (entry for shard in self.shards for entry in shard.files):
            entry.check_path()


def content_hash(shards: Iterable[ShardEntry]) -> str:
    """SHA-256 over the hashes of all files of all shards, in order."""
    joined = "".join(entry.sha256 for shard in shards for entry in shard.files)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def save_manifest(root: Path, manifest: Manifest) -> None:
    """Publish the manifest by an atomic rename; the dataset exists from that moment on."""
    publish_bytes(root / MANIFEST, encode_record(manifest.to_json()))


def load_manifest(root: Path) -> Manifest:
    """Read and check `DIR/manifest.json`; every way in which it can be wrong has its own message."""
    path = root / MANIFEST
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DatasetError(_describe_absence(root)) from None
    try:
        return parse_manifest(data, str(path))
    except DatasetError as error:
        raise DatasetError(
            f"{error}. Copy it again, or run the prepare command again to rewrite it"
        ) from None


def parse_manifest(data: bytes, where: str) -> Manifest:
    """The manifest in a file; raises `DatasetError` for one that is damaged, or of a newer version."""
    value = parse_record(data, where)
    if value.get("kind") != KIND:
        raise DatasetError(f"{where} is not the manifest of a tokenmill dataset")
    check_version(value, "format_version", FORMAT_VERSION, where)
    check_seal(value, data, where, KEYS)
    manifest = Manifest.from_json(value, where)
    try:
        manifest.check(value)
    except DatasetError as error:
        raise DatasetError(f"{where} is damaged: {error}") from None
    return manifest


def _describe_absence(root: Path) -> str:
    if not root.is_dir():
        return f"there is no dataset at {root}: no such directory"
    if not (root / PLAN).exists():
        return f"{root} is not a tokenmill dataset: it has neither {MANIFEST} nor {PLAN}"
    units = parse_record((root / PLAN).read_bytes(), str(root / PLAN)).get("units")
    done = sum(1 for _ in (root / RECEIPTS).glob("*.json")) if (root / RECEIPTS).is_dir() else 0
    return (
        f"{root} is unfinished: {done} of {len(units) if isinstance(units, list) else '?'} shards are done "
        f"and no {MANIFEST} is published. Run the same prepare command again to finish it, or "
        f"`tokenmill dataset commit {root}` if all are done"
    )
