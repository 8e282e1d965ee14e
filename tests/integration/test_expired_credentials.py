"""Credentials that expire while a job writes: the job ends with the server's message, and resumes with new ones."""

import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer
from corpus import jsonl
from expiring_store import door  # noqa: F401 - fixtures
from tokenmill.datasets.store import ObjectStore
from tokenmill.errors import StoreError

pytestmark = pytest.mark.s3


@pytest.fixture
def job(tmp_path, door, monkeypatch):  # noqa: F811
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    return {
        "inputs": str(tmp_path / "a.jsonl"),
        "tokenizer": ByteTokenizer(),
        "unit_bytes": 2000,
        "text_field": "text",
        "show_progress": False,
        "report": False,
    }


def test_a_job_ends_with_what_the_server_said_and_goes_on(job, door, tmp_path, monkeypatch):  # noqa: F811
    whole = tokenmill.prepare(**job, output=str(tmp_path / "out")).manifest
    assert len(whole.shards) > 4
    expected = r"s3://test-\w+/out/.*400 Bad Request: ExpiredToken: The provided token has expired\. Check"
    with pytest.raises(StoreError, match=expected):
        tokenmill.prepare(**job, output=f"{door.bucket}/out")
    assert door.refused
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NEWKEY")
    store = ObjectStore(f"{door.bucket}/out")
    assert store.read("manifest.json") is None
    done = store.list_sizes("receipts")
    assert len(done) == 3
    resumed = tokenmill.prepare(**job, output=f"{door.bucket}/out")
    assert resumed.manifest.content_hash == whole.content_hash
    assert set(done) < set(store.list_sizes("receipts"))


def test_a_job_with_expired_credentials_writes_nothing(job, door, monkeypatch):  # noqa: F811
    door.left = -1
    with pytest.raises(StoreError, match="ExpiredToken"):
        tokenmill.prepare(**job, output=f"{door.bucket}/out")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NEWKEY")
    assert ObjectStore(f"{door.bucket}/out").list_sizes("") == {}
