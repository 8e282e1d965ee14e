"""Manifests and receipts come back as they went, and each kind of damage has its own message."""

import hashlib
import json
from collections import Counter

import numpy as np
import pytest

from tokenmill.base.durable import DurableFile, publish_json
from tokenmill.base.records import encode_record
from tokenmill.datasets.formats.files import HEADER, OFFSETS_MAGIC, VERSION, map_numbers
from tokenmill.datasets.ledger.manifest import (
    InputEntry,
    Manifest,
    PackingIdentity,
    TokenizerIdentity,
    load_manifest,
    parse_manifest,
    save_manifest,
)
from tokenmill.datasets.ledger.receipt import (
    Account,
    FileEntry,
    Receipt,
    ShardEntry,
    load_receipt,
    save_receipt,
)
from tokenmill.errors import DatasetError
from tokenmill.sources.model import Reject


def shard(name="00000-aa", size=4):
    return ShardEntry(name, "u" * 64, 1, 2, 0, (FileEntry("tokens", f"shards/{name}.bin", size, "0" * 64),))


def manifest():
    account = Account(
        documents_read=3,
        documents_written=1,
        documents_dropped=Counter(blank=2),
        tokens_encoded=2,
        tokens_written=2,
    )
    return Manifest(
        "tokenmill",
        "uint16",
        TokenizerIdentity("gpt2", "f" * 64, 50257),
        PackingIdentity(eos_id=50256),
        {"packing.mode": "stream"},
        account,
        (Reject("broken JSON", "a.jsonl:3:17", "{"),),
        (InputEntry("a.jsonl", 10, "i"),),
        (shard(),),
    )


def test_manifest_round_trip(tmp_path):
    save_manifest(tmp_path, manifest())
    assert load_manifest(tmp_path) == manifest()
    raw = json.loads((tmp_path / "manifest.json").read_text())
    assert next(iter(raw)) == "format_version"
    assert raw["content_hash"] == manifest().content_hash


def test_a_checksum_covers_the_bytes_of_the_file():
    value = manifest().to_json()
    value["config"] = value["config"] | {"data.inputs": 'caf\u00e9 \udce9 "\\'}
    data = encode_record(value)
    checksum = json.loads(data)["checksum"]
    assert hashlib.sha256(data.replace(checksum.encode(), b"0" * 64)).hexdigest() == checksum
    assert parse_manifest(data, "it").config == value["config"]
    del value["account"]
    with pytest.raises(DatasetError, match="it is damaged: account is missing"):
        parse_manifest(encode_record(value), "it")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw | {"format_version": 99}, "upgrade"),
        (lambda raw: raw | {"format_version": True}, "format_version is True"),
        (lambda raw: raw | {"kind": "other"}, "kind is 'other', expected 'tokenmill-dataset'"),
        (lambda raw: {k: v for k, v in raw.items() if k != "shards"}, "shards is missing"),
        (lambda raw: raw | {"more": 1}, "more is an unknown key"),
        (
            lambda raw: put(raw, "tokens", -1),
            r"shards\[0\].tokens is -1, expected greater than or equal to 0",
        ),
        (lambda raw: put(raw, "tokens", value=True), r"shards\[0\].tokens is true, expected a valid integer"),
        (lambda raw: put(raw, "files", 5), r"shards\[0\].files is 5, expected"),
        (lambda raw: raw | {"account": raw["account"] | {"rejected": {"a": "5"}}}, "account.rejected.a is"),
    ],
)
def test_manifest_damage(tmp_path, change, words):
    (tmp_path / "manifest.json").write_bytes(encode_record(change(manifest().to_json())))
    with pytest.raises(DatasetError, match=f"{tmp_path}.*{words}.* Copy it again"):
        load_manifest(tmp_path)


def put(raw, key, value):
    raw["shards"][0][key] = value
    return raw


@pytest.mark.parametrize(
    ("data", "words"), [(b"[1]", "not a JSON object"), (b"{}", "kind is None"), (b"\xff", "not JSON")]
)
def test_a_file_that_is_no_record(tmp_path, data, words):
    (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(DatasetError, match=words):
        load_manifest(tmp_path)


def test_no_manifest_says_what_is_there(tmp_path):
    with pytest.raises(DatasetError, match="neither"):
        load_manifest(tmp_path)
    publish_json(tmp_path / "plan.json", {"units": [1, 2]})
    with pytest.raises(DatasetError, match="is unfinished"):
        load_manifest(tmp_path)
    with pytest.raises(DatasetError, match="no such directory"):
        load_manifest(tmp_path / "missing")


def test_receipt_counts_only_with_its_files(tmp_path):
    receipt = Receipt(0, shard(), Account())
    save_receipt(tmp_path, receipt)
    assert load_receipt(tmp_path, "00000-aa", "u" * 64) is None
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards/00000-aa.bin").write_bytes(b"1234")
    assert load_receipt(tmp_path, "00000-aa", "u" * 64) == receipt
    assert load_receipt(tmp_path, "00000-aa", "v" * 64) is None
    (tmp_path / "shards/00000-aa.bin").write_bytes(b"123")
    assert load_receipt(tmp_path, "00000-aa", "u" * 64) is None


def test_durable_file_is_whole_or_absent(tmp_path):
    file = DurableFile(tmp_path / "x.bin")
    file.write(np.arange(5, dtype="<u2"))
    assert not (tmp_path / "x.bin").exists()
    file.publish()
    assert (tmp_path / "x.bin").read_bytes() == np.arange(5, dtype="<u2").tobytes()
    dropped = DurableFile(tmp_path / "y.bin")
    dropped.write(b"abc")
    dropped.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["x.bin"]


@pytest.mark.parametrize(
    "data",
    [
        b"TM",
        HEADER.pack(b"XXXX", VERSION, 0) + b"\0" * 8,
        OFFSETS_MAGIC + (9).to_bytes(4, "little") + b"\0" * 16,
        HEADER.pack(OFFSETS_MAGIC, VERSION, 3) + b"\0" * 8,
    ],
)
def test_index_damage(tmp_path, data):
    path = tmp_path / "x.idx"
    path.write_bytes(data)
    with pytest.raises(DatasetError, match="it is damaged, or of a newer"):
        map_numbers(path, OFFSETS_MAGIC, per_item=1, extra=1)
