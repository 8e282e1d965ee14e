"""Small datasets written straight in the format of docs/format.md, for tests of readers."""

import hashlib
from pathlib import Path

import numpy as np

from tokenmill.datasets.formats.files import HEADER, OFFSETS_MAGIC, VERSION
from tokenmill.datasets.ledger.manifest import Manifest, PackingIdentity, TokenizerIdentity, save_manifest
from tokenmill.datasets.ledger.receipt import Account, FileEntry, ShardEntry

VOCAB = 1000


def write_documents(root, shards, *, dtype="uint16", eos_id=0, pad_id=None, view=None):
    """`shards`: a list of shards, each a list of documents, each a list of ids; `view` is the default one."""
    root = Path(root)
    entries = [documents_shard(root, number, documents, dtype) for number, documents in enumerate(shards)]
    return publish(root, entries, PackingIdentity(eos_id=eos_id, pad_id=pad_id, view=view), dtype)


def numbered(root, tokens, *, shards=3, document=7, dtype="uint32", first=0):
    """A stream dataset whose tokens are 0, 1, 2, ..., or from `first` on: a row tells where it was cut."""
    ids = first + np.arange(tokens)
    parts = list(np.array_split(ids, shards))
    return write_documents(
        root,
        [[part[i : i + document].tolist() for i in range(0, len(part), document)] for part in parts],
        dtype=dtype,
    )


def documents_shard(root, number, documents, dtype):
    name = f"{number:05}-{number:016x}"
    lengths = [len(document) for document in documents]
    flat = (
        np.concatenate([np.asarray(d, dtype=dtype) for d in documents]) if documents else np.empty(0, dtype)
    )
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("<u8")
    files = (
        _file(root, "tokens", f"shards/{name}.bin", flat.tobytes()),
        _file(
            root,
            "offsets",
            f"shards/{name}.idx",
            HEADER.pack(OFFSETS_MAGIC, VERSION, len(documents)) + offsets.tobytes(),
        ),
    )
    return ShardEntry(name, f"{number:064x}", len(documents), len(flat), 0, files)


def _file(root, role, path, content):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(content)
    return FileEntry(role, path, len(content), hashlib.sha256(content).hexdigest())


def publish(root, entries, packing, dtype):
    tokenizer = TokenizerIdentity("numbers", "0" * 64, VOCAB)
    save_manifest(
        root, Manifest("tokenmill", dtype, tokenizer, packing, {}, Account(), (), (), tuple(entries))
    )
    return root
