"""Every format, read back by its real reader or by an independent parser, token for token.

The readers that need torch are asked in test_real_readers.py.
"""

import itertools
import json
import struct

import numpy as np
import pyarrow.parquet as pq
import pytest

from byte_tokenizer import ByteTokenizer, prepare_bytes
from tokenmill.errors import ConfigError

TEXTS = [f"document {number} " * (number % 17 + 1) + "끝" for number in range(200)]
LENGTH = 40


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    return path


def run(corpus, output, **options):
    return prepare_bytes(corpus, output, unit_bytes=8_000, **options)


@pytest.fixture(scope="module")
def documents():
    """What every reader must give for `stream`: the bytes of each text and an EOS."""
    return [[*text.encode(), 256] for text in TEXTS]


@pytest.fixture(scope="module")
def rows(corpus, tmp_path_factory):
    """What every reader must give for `concat`: the tokens of each shard, cut, with a last row that is padded."""
    root = tmp_path_factory.mktemp("rows")
    manifest = run(corpus, root).manifest
    parts = [np.memmap(root / shard.file("tokens").path, dtype="<u2", mode="r") for shard in manifest.shards]
    assert len(parts) > 2
    ids, labels = (
        np.concatenate(
            [np.pad(part.astype(int), (0, -len(part) % LENGTH), constant_values=pad) for part in parts]
        )
        for pad in (258, -100)
    )
    return ids.reshape(-1, LENGTH), labels.reshape(-1, LENGTH)


def test_native_documents_by_memmap(corpus, documents, tmp_path):
    manifest = run(corpus, tmp_path).manifest
    found = []
    for shard in manifest.shards:
        tokens = np.memmap(tmp_path / shard.file("tokens").path, dtype="<u2", mode="r")
        raw = (tmp_path / shard.file("offsets").path).read_bytes()
        magic, version, count = struct.unpack("<4sIQ", raw[:16])
        assert (magic, version, count) == (b"TMIX", 1, shard.documents)
        offsets = struct.unpack(f"<{count + 1}Q", raw[16:])
        found += [tokens[a:b].tolist() for a, b in itertools.pairwise(offsets)]
    assert found == documents


def read_megatron(prefix):
    """Megatron's layout by its own description, nothing of ours."""
    raw = prefix.with_suffix(".idx").read_bytes()
    assert raw[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, documents = struct.unpack_from("<QBQQ", raw, 9)
    assert version == 1
    dtype = {4: "<i4", 5: "<i8", 8: "<u2"}[code]
    at = 9 + 25
    lengths = np.frombuffer(raw, "<i4", sequences, at)
    pointers = np.frombuffer(raw, "<i8", sequences, at + 4 * sequences)
    indices = np.frombuffer(raw, "<i8", documents, at + 12 * sequences)
    assert at + 12 * sequences + 8 * documents == len(raw)
    assert indices.tolist() == list(range(sequences + 1))
    data = prefix.with_suffix(".bin").read_bytes()
    return [np.frombuffer(data, dtype, n, p).tolist() for n, p in zip(lengths, pointers, strict=True)]


@pytest.mark.parametrize("wide", [False, True])
def test_megatron(corpus, documents, tmp_path, wide):
    manifest = run(corpus, tmp_path, format="megatron", tokenizer=ByteTokenizer(wide=wide)).manifest
    assert manifest.dtype == ("int32" if wide else "uint16")
    found = [doc for shard in manifest.shards for doc in read_megatron(tmp_path / "shards" / shard.name)]
    assert found == documents


def test_megatron_rows(corpus, rows, tmp_path):
    manifest = run(corpus, tmp_path, format="megatron", context_length=LENGTH).manifest
    found = [row for shard in manifest.shards for row in read_megatron(tmp_path / "shards" / shard.name)]
    assert np.array_equal(found, rows[0])


def test_arrow_by_load_from_disk(corpus, documents, rows, tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    run(corpus, tmp_path / "documents", format="arrow")
    loaded = datasets.load_from_disk(str(tmp_path / "documents"))
    assert loaded["input_ids"][:] == documents
    run(
        corpus, tmp_path / "rows", format="arrow", context_length=LENGTH, columns=("labels", "attention_mask")
    )
    loaded = datasets.load_from_disk(str(tmp_path / "rows")).with_format("numpy")
    assert loaded.features["input_ids"].length == LENGTH
    assert loaded.features["attention_mask"].feature.dtype == "int8"
    assert np.array_equal(loaded["input_ids"][:], rows[0])
    assert np.array_equal(loaded["labels"][:], rows[1])


def test_arrow_with_seeded_type(corpus, documents, tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    run(corpus, tmp_path, format="arrow", dtype="int64")
    loaded = datasets.load_from_disk(str(tmp_path))
    assert loaded.features["input_ids"].feature.dtype == "int64"
    assert loaded[7]["input_ids"] == documents[7]


def test_parquet_by_pyarrow(corpus, documents, rows, tmp_path):
    run(corpus, tmp_path / "documents", format="parquet")
    assert pq.read_table(tmp_path / "documents" / "shards")["input_ids"].to_pylist() == documents
    run(corpus, tmp_path / "rows", format="parquet", context_length=LENGTH, columns=("labels",))
    table = pq.read_table(tmp_path / "rows" / "shards")
    assert np.array_equal(table["input_ids"].to_pylist(), rows[0])
    assert np.array_equal(table["labels"].to_pylist(), rows[1])


def test_npy_by_numpy(corpus, documents, rows, tmp_path):
    manifest = run(corpus, tmp_path / "documents", format="npy").manifest
    found = []
    for shard in manifest.shards:
        tokens = np.load(tmp_path / "documents" / shard.file("tokens").path, mmap_mode="r")
        offsets = np.load(tmp_path / "documents" / shard.file("offsets").path)
        found += [tokens[a:b].tolist() for a, b in itertools.pairwise(offsets)]
    assert found == documents
    manifest = run(
        corpus, tmp_path / "rows", format="npy", context_length=LENGTH, columns=("attention_mask",)
    ).manifest
    files = [
        np.load(tmp_path / "rows" / shard.file("tokens").path, mmap_mode="r") for shard in manifest.shards
    ]
    assert np.array_equal(np.concatenate(files), rows[0])
    mask = np.load(tmp_path / "rows" / manifest.shards[-1].file("attention_mask").path)
    assert mask.dtype == np.int8
    assert mask.shape == files[-1].shape


def test_mds_layout(corpus, documents, rows, tmp_path):
    """The files of the index, by the format's own description; the real reader follows below."""
    run(corpus, tmp_path / "documents", format="mds")
    found = [
        np.frombuffer(sample[6 if sample[4] & 3 == 0 else 7 :], "<u2").tolist()
        for sample in mds_samples(tmp_path / "documents")
    ]
    assert found == documents
    run(corpus, tmp_path / "rows", format="mds", context_length=LENGTH, columns=("labels",))
    samples = mds_samples(tmp_path / "rows")
    assert np.array_equal([np.frombuffer(sample[: 4 * LENGTH], "<i4") for sample in samples], rows[1])
    assert np.array_equal([np.frombuffer(sample[4 * LENGTH :], "<u2") for sample in samples], rows[0])


def mds_samples(root):
    samples = []
    for shard in json.loads((root / "index.json").read_text())["shards"]:
        raw = (root / shard["raw_data"]["basename"]).read_bytes()
        (count,) = struct.unpack_from("<I", raw)
        offsets = struct.unpack_from(f"<{count + 1}I", raw, 4)
        config = json.loads(raw[4 * (count + 2) : offsets[0]])
        assert config["column_names"] == shard["column_names"]
        assert len(raw) == shard["raw_data"]["bytes"] == offsets[-1]
        samples += [raw[a:b] for a, b in itertools.pairwise(offsets)]
    return samples


def test_litdata_layout(corpus, rows, tmp_path):
    run(corpus, tmp_path, format="litdata", context_length=LENGTH)
    index = json.loads((tmp_path / "index.json").read_text())
    assert index["config"]["data_format"] == ["no_header_tensor:20"]
    found = []
    for chunk in index["chunks"]:
        raw = (tmp_path / chunk["filename"]).read_bytes()
        (count,) = struct.unpack_from("<I", raw)
        offsets = struct.unpack_from(f"<{count + 1}I", raw, 4)
        assert (count, offsets[-1]) == (chunk["chunk_size"], len(raw))
        assert offsets[0] == 4 * (count + 2)
        found.append(np.frombuffer(raw, "<u2", chunk["dim"], offsets[0]).reshape(-1, LENGTH))
    assert np.array_equal(np.concatenate(found), rows[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"format": "megatron", "context_length": 8, "columns": ("labels",)},
            "token ids and a loss mask only",
        ),
        ({"dtype": "int64"}, "not one of"),
        ({"dtype": "uint16", "tokenizer": ByteTokenizer(wide=True)}, "65535"),
        ({"columns": ("labels",)}, "columns belong to rows"),
        ({"mode": "bestfit", "context_length": 8, "tail": "drop"}, "tail='drop' is for packing"),
        ({"eos": "<nope>"}, "neither a special token"),
        ({"eos": 999}, "neither a special token"),
    ],
)
def test_contradictions_are_told_before_anything_is_written(corpus, tmp_path, options, words):
    with pytest.raises(ConfigError, match=words):
        run(corpus, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
