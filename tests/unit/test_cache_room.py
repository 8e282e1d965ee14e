"""The cache of remote shards stays within its budget: what was used longest ago goes first."""

import os

import pytest

from tokenmill.datasets.ledger.receipt import FileEntry
from tokenmill.datasets.remote import ShardCache, make_room
from tokenmill.errors import ConfigError


@pytest.fixture
def datasets(tmp_path):
    """Two datasets with two shards of 100 bytes each; a0 was used longest ago, b1 last."""
    for age, name in enumerate(("a/shards/0", "b/shards/0", "a/shards/1", "b/shards/1")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (age, age))
    (tmp_path / "a" / "manifest.json").write_text("{}")
    return tmp_path


def names(datasets):
    return sorted(str(path.relative_to(datasets)) for path in datasets.glob("*/shards/*"))


def test_the_oldest_go_first_whosever_they_are(datasets, monkeypatch):
    monkeypatch.setenv("TOKENMILL_CACHE_BYTES", "400")
    assert make_room(datasets, 0) == 0
    assert make_room(datasets, 150) == 200
    assert names(datasets) == ["a/shards/1", "b/shards/1"]
    assert (datasets / "a" / "manifest.json").exists()


def test_what_is_used_or_wanted_stays(datasets, monkeypatch):
    monkeypatch.setenv("TOKENMILL_CACHE_BYTES", "0.4kB")
    os.utime(datasets / "a/shards/0")
    assert make_room(datasets, 100, {datasets / "b/shards/0"}) == 100
    assert names(datasets) == ["a/shards/0", "b/shards/0", "b/shards/1"]
    assert make_room(datasets, 1000, {datasets / "b/shards/0"}) == 200
    assert names(datasets) == ["b/shards/0"]
    monkeypatch.setenv("TOKENMILL_CACHE_BYTES", "much")
    with pytest.raises(ConfigError, match="CACHE_BYTES: expected a size such as 200GB, found 'much'"):
        make_room(datasets, 1)


class Store:
    """Gives any name as 100 bytes, and counts."""

    address = "memory://x"

    def __init__(self):
        self.fetched = []

    def fetch(self, name, path):
        self.fetched.append(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100))


def test_a_dataset_larger_than_the_budget_is_read_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENMILL_CACHE_BYTES", "250")
    store = Store()
    cache = ShardCache(store, tmp_path / "datasets" / "x", ahead=1)
    entries = [FileEntry("tokens", f"shards/{at}.bin", 100, "") for at in range(6)]
    for entry in (*entries, *entries):
        path = cache.path(entry)
        assert path.stat().st_size == 100
        assert len(names(tmp_path / "datasets")) <= 2
    assert len(store.fetched) == 12


def test_all_of_a_dataset_at_once_is_not_cut_short(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENMILL_CACHE_BYTES", "250")
    cache = ShardCache(Store(), tmp_path / "datasets" / "x", ahead=1)
    cache.whole = True
    for at in range(5):
        cache.path(FileEntry("tokens", f"shards/{at}.bin", 100, ""))
    assert len(names(tmp_path / "datasets")) == 5
