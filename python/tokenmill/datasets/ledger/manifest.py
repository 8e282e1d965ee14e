"""The manifest: the file that readers open first, with all that is needed to map the shards."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tokenmill.base.durable import publish_bytes
from tokenmill.base.records import Count, Record, encode_record, open_record, to_plain, validate
from tokenmill.datasets.documents import find_column
from tokenmill.datasets.formats.format import DTYPES, find_format
from tokenmill.datasets.ledger.receipt import AccountField, ShardEntry
from tokenmill.datasets.views import View
from tokenmill.errors import DatasetError
from tokenmill.sources.model import Reject

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
PLAN = "plan.json"
KIND = "tokenmill-dataset"


@dataclass(frozen=True, slots=True)
class TokenizerIdentity:
    """The vocabulary of the ids: its name, fingerprint and size."""

    name: str
    fingerprint: str
    vocab_size: Count


@dataclass(frozen=True, slots=True)
class PackingIdentity:
    """The BOS, EOS and padding ids, the columns in files, and the view.

    Formats that store rows are written through the view. For others it is the default view of readers.
    """

    bos_id: Count | None = None
    eos_id: Count | None = None
    pad_id: Count | None = None
    columns: tuple[str, ...] = ()
    view: View | None = None

    @property
    def mode(self) -> str:
        """The packing of the view; `stream` without one."""
        return "stream" if self.view is None else self.view.packing

    @property
    def context_length(self) -> int | None:
        """The length of the rows of the view."""
        return None if self.view is None else self.view.context_length


@dataclass(frozen=True, slots=True)
class Target:
    """The format, tokenizer and packing of a dataset. With the receipts it determines the manifest."""

    format: str
    dtype: str
    tokenizer: TokenizerIdentity
    packing: PackingIdentity

    @property
    def row_length(self) -> int | None:
        """The length of the rows in files, or None for documents."""
        return self.packing.context_length if find_format(self.format).holds_rows else None

    @property
    def layout(self) -> Literal["documents", "rows"]:
        """`rows` if the format stores rows and there is a view, otherwise `documents`."""
        return "documents" if self.row_length is None else "rows"


@dataclass(frozen=True, slots=True)
class InputEntry:
    """One input of the job, with an identity that detects changes."""

    path: str
    size: Count
    identity: str


@dataclass(frozen=True, slots=True)
class Manifest(Target, Record):
    """The record of a finished dataset, available as `Dataset.manifest`.

    >>> import tokenmill
    >>> texts = ["a text", ""]
    >>> made = tokenmill.prepare(dataset=texts, tokenizer=tokenizer, output="out", verbose_level="ERROR")
    >>> made.manifest.documents, made.manifest.account.documents_read, made.manifest.packing.mode
    (1, 2, 'stream')
    """

    config: dict[str, Any]
    account: AccountField
    rejects: tuple[Reject, ...]
    inputs: tuple[InputEntry, ...]
    shards: tuple[ShardEntry, ...]
    # The numbers of shards that it was published with before.
    grown: tuple[Count, ...] = ()

    @property
    def documents(self) -> int:
        """Documents in all shards."""
        return sum(shard.documents for shard in self.shards)

    @property
    def tokens(self) -> int:
        """Token ids stored in all shards, with the padding of stored rows."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def rows(self) -> int:
        """Rows stored in all shards; 0 if the files hold documents."""
        return sum(shard.rows for shard in self.shards)

    @property
    def content_hash(self) -> str:
        """A hash of the whole dataset. Equal hashes mean equal bytes in every shard."""
        return content_hash(self.shards)

    def keep_first(self, shards: int | None) -> Manifest:
        """Return the manifest with the shards of an earlier version. Its account still counts all."""
        sizes, shards = (*self.grown, len(self.shards)), len(self.shards) if shards is None else shards
        if shards not in sizes:
            raise DatasetError(f"the dataset was never published with {shards} shards, but with {sizes}")
        return replace(self, shards=self.shards[:shards], grown=sizes[: sizes.index(shards)])

    def to_json(self) -> dict[str, Any]:
        """Return the object of docs/format.md, version first."""
        head = {"format_version": FORMAT_VERSION, "kind": KIND, "layout": self.layout}
        shards = to_plain(self.shards, exclude_none=True)
        fields: dict[str, Any] = to_plain(self) | {"account": self.account.to_json(), "shards": shards}
        return head | fields | {"content_hash": self.content_hash}


def content_hash(shards: Iterable[ShardEntry]) -> str:
    """Return the SHA-256 over the hashes of all files of all shards, in order."""
    joined = "".join(entry.sha256 for shard in shards for entry in shard.files)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def save_manifest(root: Path, manifest: Manifest) -> None:
    """Publish the manifest by an atomic rename, which completes the dataset."""
    publish_bytes(root / MANIFEST, encode_record(manifest.to_json()))


def load_manifest(root: Path) -> Manifest:
    """Read and check `DIR/manifest.json`."""
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
    """Return the manifest in a file. Raise `DatasetError` if it is corrupt or of another version."""
    value = open_record(data, where, "format_version", FORMAT_VERSION, KIND)
    for key in ("layout", "content_hash"):  # these follow from the rest
        value.pop(key, None)
    manifest = validate(Manifest, value, where)
    try:
        find_format(manifest.format)
        for name in manifest.packing.columns:
            find_column(name)
    except DatasetError as error:
        raise DatasetError(f"{where} is damaged: {error}") from None
    if manifest.dtype not in DTYPES or manifest.packing.context_length == 0:
        raise DatasetError(f"{where} is damaged: it has dtype {manifest.dtype!r}, or rows of length 0")
    return manifest


def _describe_absence(root: Path) -> str:
    if not root.is_dir():
        return f"there is no dataset at {root}: no such directory"
    if not (root / PLAN).exists():
        return f"{root} is not a tokenmill dataset: it has neither {MANIFEST} nor {PLAN}"
    return (
        f"{root} is unfinished: no {MANIFEST} is published. Run the same prepare command again to finish it, "
        f"or `tokenmill dataset commit {root}` if all units are done"
    )
