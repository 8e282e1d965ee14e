"""Inputs and objects on a real S3 server."""

import pickle

import pytest

from corpus import RECORDS, TEXTS, jsonl, write_format
from object_store import bucket, s3_endpoint  # noqa: F401 - fixtures
from reading import read_all
from tokenmill.datasets.store import ObjectStore
from tokenmill.errors import InputError, InputNotFoundError, StoreError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import cut_ranges, discover, read_blocks

pytestmark = pytest.mark.s3


def test_the_first_to_create_wins(tmp_path, bucket):  # noqa: F811
    store = ObjectStore(f"{bucket}/some/prefix")
    store.check()
    assert store.read("receipts/a.json") is None
    assert store.create("receipts/a.json", b"first")
    assert not store.create("receipts/a.json", b"second")
    assert store.read("receipts/a.json") == b"first"
    store.replace("receipts/a.json", b"third")
    assert store.read("receipts/a.json") == b"third"
    (tmp_path / "shard").write_bytes(b"x" * (20 << 20))
    store.upload("shards/a.bin", tmp_path / "shard")
    store.fetch("shards/a.bin", tmp_path / "deep" / "copy")
    assert (tmp_path / "deep" / "copy").read_bytes() == (tmp_path / "shard").read_bytes()
    assert store.list_sizes("shards") == {"shards/a.bin": 20 << 20}
    store.delete(["shards/a.bin", "shards/none"])
    assert store.list_sizes("shards") == {}
    assert pickle.loads(pickle.dumps(store)) == store


def test_a_store_without_conditional_writes_is_refused(bucket, monkeypatch):  # noqa: F811
    store = ObjectStore(f"{bucket}/x")
    # A server that ignores the condition answers as this one does without it.
    monkeypatch.setattr(
        ObjectStore, "create", lambda self, name, data, *, patient: self.replace(name, data) or True
    )
    with pytest.raises(StoreError, match="does not support conditional writes"):
        store.check()
    assert store.list_sizes("") == {}


def test_a_store_that_does_not_answer_is_named(bucket, monkeypatch):  # noqa: F811
    with pytest.raises(StoreError, match=r"s3://no-such-bucket-here/x.*could not be"):
        ObjectStore("s3://no-such-bucket-here/x").check()
    with pytest.raises(StoreError, match="a dataset cannot be stored there"):
        ObjectStore("nonsense://x").read("a")


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "arrow"])
def test_remote_inputs_are_read_in_ranges(bucket, tmp_path, kind):  # noqa: F811
    path = write_format(tmp_path, kind)
    ObjectStore(f"{bucket}/in").upload(path.name, path)
    for address in (f"{bucket}/in/{path.name}", f"{bucket}/in", f"{bucket}/in/*.{kind}"):
        found = read_all(address, unit_bytes=3000, block_bytes=500, id_field="id")
        assert found.texts == TEXTS
        assert found.ids == [str(record["id"]) for record in RECORDS]
    assert (found.parts > 1) == (kind in {"jsonl", "parquet", "arrow"})


def test_a_remote_input_has_an_identity(bucket):  # noqa: F811
    store = ObjectStore(bucket)
    store.replace("in/a.jsonl", jsonl())
    config = SourceConfig(inputs=(f"{bucket}/in/a.jsonl",), text_field="text")
    (file,) = discover(config)
    assert discover(config) == [file]
    (part,) = cut_ranges(file, 1 << 30)
    assert sum(len(block) for block in read_blocks(file, part, config)) == len(TEXTS)
    store.replace("in/a.jsonl", jsonl(RECORDS[::-1]))
    with pytest.raises(InputError, match="changed after the job was planned"):
        list(read_blocks(file, part, config))
    store.delete(["in/a.jsonl"])
    with pytest.raises(InputNotFoundError):
        list(read_blocks(file, part, config))
    with pytest.raises(InputNotFoundError):
        discover(config)


def test_rejects_of_a_remote_input_name_it(bucket):  # noqa: F811
    ObjectStore(bucket).replace("in/a.jsonl", b'{"text": "a"}\n{broken\n')
    with pytest.raises(InputError, match=r"s3://test-\w+/in/a\.jsonl:2:15: broken JSON"):
        read_all(f"{bucket}/in/a.jsonl")
