"""A Ray cluster that writes to a real S3 server, also when the credentials expire in the middle."""

import pytest

import scale_options
import tokenmill
from expiring_store import door  # noqa: F401 - fixtures
from object_store import bucket, s3_endpoint  # noqa: F401 - fixtures
from tokenmill.datasets.store import ObjectStore
from tokenmill.errors import StoreError

pytestmark = [pytest.mark.ray, pytest.mark.s3]


def options(corpus, cluster, output):
    return scale_options.options(
        corpus, output, parity_check=False, executor="ray", ray_address=cluster.address
    )


def test_a_cluster_writes_the_same_bytes_to_a_store(cluster, corpus, reference, bucket):  # noqa: F811
    """The variables that lead to the store are the driver's: the nodes were started without them."""
    dataset = tokenmill.prepare(**options(corpus, cluster, f"{bucket}/out"))
    assert dataset.content_hash == reference.content_hash
    assert dataset.address == f"{bucket}/out"
    store = ObjectStore(f"{bucket}/out")
    listed = {entry.path: entry.bytes for shard in dataset.manifest.shards for entry in shard.files}
    assert store.list_sizes("shards") == listed
    assert len(store.list_sizes("receipts")) == len(reference.manifest.shards)
    for number in (0, len(reference) - 1):
        assert dataset[number].tolist() == reference[number].tolist()


def test_credentials_that_expire_end_a_job_that_goes_on_with_new_ones(
    cluster,
    corpus,
    reference,
    door,  # noqa: F811
    monkeypatch,
):
    job = options(corpus, cluster, f"{door.bucket}/out")
    with pytest.raises(StoreError, match=r"s3://test-\w+/out/.*ExpiredToken.*credentials"):
        tokenmill.prepare(**job)
    assert door.refused
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NEWKEY")
    store = ObjectStore(f"{door.bucket}/out")
    assert store.read("manifest.json") is None
    assert len(store.list_sizes("receipts")) == 3
    assert tokenmill.prepare(**job).content_hash == reference.content_hash
