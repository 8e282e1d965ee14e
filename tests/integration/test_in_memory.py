"""Data that is in memory already, and splits that stay apart."""

import pyarrow as pa
import pytest

from byte_tokenizer import ByteTokenizer, prepare_bytes
from tokenmill.errors import ConfigError

TEXTS = ["one", "두 번째", "three " * 50]


def texts_of(dataset):
    return [ByteTokenizer().decode(document) for document in dataset]


def run(tmp_path, data, **options):
    return prepare_bytes(None, tmp_path / "out", dataset=data, **options)


@pytest.mark.parametrize(
    "data",
    [
        TEXTS,
        [{"text": text, "n": n} for n, text in enumerate(TEXTS)],
        pa.table({"text": TEXTS, "n": [1, 2, 3]}),
        pa.table({"text": TEXTS}).to_batches()[0],
        pa.array(TEXTS),
        {"text": TEXTS},
        (text for text in TEXTS),
    ],
    ids=["list", "records", "table", "batch", "array", "columns", "generator"],
)
def test_in_memory(tmp_path, data):
    assert texts_of(run(tmp_path, data)) == TEXTS


def test_hf_dataset_is_resumed_by_its_fingerprint(tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    data = datasets.Dataset.from_dict({"text": TEXTS})
    first = run(tmp_path, data, unit_bytes=8)
    assert texts_of(first) == TEXTS
    assert run(tmp_path, data, unit_bytes=8).content_hash == first.content_hash


def test_a_dataset_that_is_streamed(tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    data = datasets.Dataset.from_dict({"text": TEXTS, "n": [1, 2, 3]})
    assert texts_of(run(tmp_path, data.to_iterable_dataset())) == TEXTS
    splits = datasets.IterableDatasetDict(train=data.to_iterable_dataset(), test=data.to_iterable_dataset())
    made = run(tmp_path / "splits", splits)
    assert {name: texts_of(dataset) for name, dataset in made.items()} == {"train": TEXTS, "test": TEXTS}


def test_splits_are_kept(tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    data = datasets.DatasetDict(
        train=datasets.Dataset.from_dict({"text": TEXTS}), test=datasets.Dataset.from_dict({"text": ["x"]})
    )
    made = run(tmp_path, data, format="arrow")
    assert {name: len(dataset) for name, dataset in made.items()} == {"train": 3, "test": 1}
    loaded = datasets.load_from_disk(str(tmp_path / "out"))
    assert loaded["test"][0]["input_ids"] == [ord("x"), 256]
    assert set(loaded) == {"train", "test"}


def test_a_saved_directory_with_splits(tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    datasets.DatasetDict(
        train=datasets.Dataset.from_dict({"text": TEXTS}), test=datasets.Dataset.from_dict({"text": ["x"]})
    ).save_to_disk(str(tmp_path / "saved"))
    assert texts_of(prepare_bytes(tmp_path / "saved", tmp_path / "both")["train"]) == TEXTS
    assert texts_of(prepare_bytes(tmp_path / "saved", tmp_path / "one", split="test")) == ["x"]


def test_data_in_memory_cannot_go_to_a_cluster(tmp_path):
    with pytest.raises(ConfigError, match="data in memory cannot be read by other processes"):
        run(tmp_path, TEXTS, executor="ray")
