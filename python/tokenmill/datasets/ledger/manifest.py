"""The manifest: the one file that a reader opens first, with everything it needs to map the shards."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tokenmill.base.durable import digest, publish_json
from tokenmill.base.errors import DatasetError
from tokenmill.datasets.ledger.account import Account
from tokenmill.datasets.ledger.receipt import RECEIPTS, RejectPlace, ShardEntry

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
PLAN = "plan.json"
KIND = "tokenmill-dataset"
MAX_REJECT_PLACES = 100
Layout = Literal["documents", "rows"]


@dataclass(frozen=True, slots=True)
class TokenizerIdentity:
    """The vocabulary behind the ids: a name for people, a fingerprint for machines."""

    name: str
    fingerprint: str
    vocab_size: int


@dataclass(frozen=True, slots=True)
class PackingIdentity:
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

    def to_json(self) -> dict[str, Any]:
        """A plain object."""
        return {name: getattr(self, name) for name in self.__slots__} | {"columns": list(self.columns)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PackingIdentity:
        """The inverse of `to_json`."""
        return cls(**{**value, "columns": tuple(value["columns"])})


@dataclass(frozen=True, slots=True)
class InputEntry:
    """One input of the job, with what tells whether it has changed since."""

    path: str
    size: int
    identity: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A finished dataset. `load_manifest(DIR)` gives it; readers open nothing before it."""

    format: str
    dtype: str
    tokenizer: TokenizerIdentity
    packing: PackingIdentity
    config: dict[str, Any]
    account: Account
    rejects: tuple[RejectPlace, ...]
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
        identity = self.tokenizer
        return {
            "format_version": FORMAT_VERSION,
            "kind": KIND,
            "format": self.format,
            "layout": self.layout,
            "dtype": self.dtype,
            "tokenizer": {name: getattr(identity, name) for name in identity.__slots__},
            "packing": self.packing.to_json(),
            "config": self.config,
            "config_fingerprint": digest(self.config),
            "account": self.account.to_json(),
            "rejects": [place.to_json() for place in self.rejects],
            "inputs": [{"path": e.path, "size": e.size, "identity": e.identity} for e in self.inputs],
            "shards": [shard.to_json() for shard in self.shards],
            "content_hash": self.content_hash,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Manifest:
        """The inverse of `to_json`; unknown keys are ignored, a newer version is refused."""
        return cls(
            format=value["format"],
            dtype=value["dtype"],
            tokenizer=TokenizerIdentity(**value["tokenizer"]),
            packing=PackingIdentity.from_json(value["packing"]),
            config=value["config"],
            account=Account.from_json(value["account"]),
            rejects=tuple(RejectPlace(**place) for place in value["rejects"]),
            inputs=tuple(InputEntry(e["path"], e["size"], e["identity"]) for e in value["inputs"]),
            shards=tuple(ShardEntry.from_json(shard) for shard in value["shards"]),
        )


def content_hash(shards: Iterable[ShardEntry]) -> str:
    """SHA-256 over the hashes of all files of all shards, in order."""
    joined = "".join(entry.sha256 for shard in shards for entry in shard.files)
    return hashlib.sha256(joined.encode("ascii")).hexdigest()


def save_manifest(root: Path, manifest: Manifest) -> None:
    """Publish the manifest by an atomic rename; the dataset exists from that moment on."""
    publish_json(root / MANIFEST, manifest.to_json())


def load_manifest(root: Path) -> Manifest:
    """Read and check `DIR/manifest.json`; every way in which it can be wrong has its own message."""
    path = root / MANIFEST
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DatasetError(_what_is_there(root)) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DatasetError(
            f"{path} is not JSON ({error}); run the prepare command again to rewrite it"
        ) from None
    version = value.get("format_version") if isinstance(value, dict) else None
    if not isinstance(version, int) or value.get("kind") != KIND:
        raise DatasetError(f"{path} is not the manifest of a tokenmill dataset")
    if version > FORMAT_VERSION:
        raise DatasetError(
            f"{path} has format version {version}, this tokenmill reads up to {FORMAT_VERSION}: "
            "pip install --upgrade tokenmill"
        )
    try:
        return Manifest.from_json(value)
    except (KeyError, TypeError) as error:
        raise DatasetError(
            f"{path} lacks or misspells {error}; run the prepare command again to rewrite it"
        ) from None


def _what_is_there(root: Path) -> str:
    if not root.is_dir():
        return f"there is no dataset at {root}: no such directory"
    if not (root / PLAN).exists():
        return f"{root} is not a tokenmill dataset: it has neither {MANIFEST} nor {PLAN}"
    units = len(json.loads((root / PLAN).read_bytes()).get("units", ()))
    done = sum(1 for _ in (root / RECEIPTS).glob("*.json")) if (root / RECEIPTS).is_dir() else 0
    return (
        f"{root} is unfinished: {done} of {units} shards are done and no {MANIFEST} is published. "
        f"Run the same prepare command again to finish it, or `tokenmill commit {root}` if all are done"
    )
