"""Check a finished dataset without its sources: files, hashes, indexes, ids, sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tokenmill.base.durable import hash_file
from tokenmill.datasets.formats.format import find_format, read_items
from tokenmill.datasets.ledger.manifest import PLAN, Manifest
from tokenmill.datasets.ledger.plan import load_plan
from tokenmill.datasets.ledger.receipt import Account, ShardEntry, load_receipt, parse_receipt, receipt_name
from tokenmill.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result: `state` is `ok`, `problem` or `skipped`."""

    name: str
    state: str
    detail: str


def check_dataset(root: Path, manifest: Manifest) -> Iterator[Check]:
    """Run every check that needs only the dataset's own files, cheap checks first."""
    yield _run("manifest", partial(_check_sums, manifest))
    yield _run("plan", partial(_check_plan, root, manifest))
    yield _run("receipts", partial(_check_receipts, root, manifest))
    whole = True
    for shard in manifest.shards:
        check = _run(f"files of {shard.name}", partial(_check_files, root, shard))
        whole = whole and check.state == "ok"
        yield check
    if not whole:
        yield Check("contents", "skipped", "some files are damaged, so the contents were not checked")
    elif find_format(manifest.format).reader is None:
        yield Check("contents", "skipped", f"the format {manifest.format} is read by its own library only")
    else:
        for shard in manifest.shards:
            yield _run(f"contents of {shard.name}", partial(_check_contents, root, manifest, shard))


def _run(name: str, work: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", work())
    except DatasetError as error:
        return Check(name, "problem", str(error))
    except (OSError, ValueError) as error:
        return Check(name, "problem", f"cannot be read: {error}")


def _check_sums(manifest: Manifest) -> str:
    account, packing, config = manifest.account, manifest.packing, manifest.config
    account.check()
    if account.tokens_stored != manifest.tokens:
        raise DatasetError(
            f"the account stores {account.tokens_stored} tokens, the shards have {manifest.tokens}"
        )
    length = manifest.row_length
    if length is not None and manifest.tokens != manifest.rows * length:
        raise DatasetError(f"{manifest.rows} rows of {length} are not {manifest.tokens} tokens")
    markers = {
        "packing.bos": packing.bos_id,
        "packing.eos": packing.eos_id,
        "packing.pad_token": packing.pad_id,
    }
    settled = {
        "output.dtype": manifest.dtype,
        "tokenizer.fingerprint": manifest.tokenizer.fingerprint,
    }
    for key, value in (markers | settled).items():
        if key in config and config[key] != value:
            raise DatasetError(f"the settings have {key} {config[key]!r}, the manifest {value!r}")
    for key, marker in markers.items():
        if marker is not None and marker >= manifest.tokenizer.vocab_size:
            raise DatasetError(f"{key} is {marker}, outside the vocabulary")
    if len({shard.name for shard in manifest.shards}) != len(manifest.shards):
        raise DatasetError("a shard is listed twice")
    return f"{manifest.documents:,} documents, {manifest.tokens:,} tokens; read = written + dropped"


def _check_plan(root: Path, manifest: Manifest) -> str:
    plan = load_plan(root)
    if plan is None:
        return f"there is no {PLAN}, so the sources are not known"
    if [unit.id for unit in plan.units] != [shard.unit for shard in manifest.shards]:
        raise DatasetError("the plan and the manifest list different units: the dataset is not finished")
    if (plan.target.tokenizer, plan.target.packing) != (manifest.tokenizer, manifest.packing):
        raise DatasetError("the plan and the manifest disagree on the tokenizer or the packing")
    return f"{len(plan.units)} units of {len(plan.inputs)} inputs"


def _check_receipts(root: Path, manifest: Manifest) -> str:
    found, total = 0, Account()
    for shard in manifest.shards:
        receipt, path = load_receipt(root, shard.name, shard.unit), root / receipt_name(shard.name)
        if receipt is None and path.exists():
            parse_receipt(path.read_bytes(), str(path))
            raise DatasetError(f"the receipt of {shard.name} does not fit its files")
        if receipt is not None:
            if receipt.shard != shard:
                raise DatasetError(f"the receipt of {shard.name} and the manifest disagree")
            found += 1
            total.add(receipt.account)
    if found == len(manifest.shards) and total != manifest.account:
        raise DatasetError("the receipts do not add up to the manifest's account")
    return f"{found} of {len(manifest.shards)} receipts are there and agree"


def _check_files(root: Path, shard: ShardEntry) -> str:
    for entry in shard.files:
        entry.check_size(root)
        found = hash_file(root / entry.path)
        if found != entry.sha256:
            raise DatasetError(f"{entry.path} has changed since it was written: its SHA-256 is {found}")
    return f"{len(shard.files)} files, {sum(entry.bytes for entry in shard.files):,} bytes, hashes agree"


def _check_contents(root: Path, manifest: Manifest, shard: ShardEntry) -> str:
    limit, eos = manifest.tokenizer.vocab_size, manifest.packing.eos_id
    items = tokens = 0
    for chunk in read_items(root, manifest, shard):
        ids, offsets = chunk.ids, chunk.offsets
        if len(ids) and int(ids.max()) >= limit:
            place = tokens + int(np.argmax(ids >= limit))
            raise DatasetError(
                f"token {place} of {shard.name} is {int(ids.max())}, the vocabulary has {limit}"
            )
        if manifest.layout == "documents" and eos is not None and (ids[offsets[1:] - 1] != eos).any():
            raise DatasetError(f"{shard.name}: a document does not end with the EOS of the manifest, {eos}")
        items += len(offsets) - 1
        tokens += len(ids)
    expected = shard.rows if manifest.layout == "rows" else shard.documents
    if (items, tokens) != (expected, shard.tokens):
        raise DatasetError(
            f"{shard.name} has {items} items of {tokens} tokens, not {expected} of {shard.tokens}"
        )
    return f"{items:,} items, {tokens:,} tokens, every id below {limit}"
