"""What trainers read: datatrove's and OLMo's files, and whole documents with the columns that axolotl wants."""

import gzip
import json
import struct
from pathlib import Path

import numpy as np
import pytest

import tokenmill
from byte_tokenizer import prepare_bytes
from chat_tokenizers import write_chat
from tokenmill.datasets.ledger.manifest import load_manifest
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.pipeline.convert import convert_dataset
from tokenmill.pipeline.verify import verify_dataset

TEXTS = [f"document {number} " * (number % 17 + 1) + "끝" for number in range(120)]
DOCUMENTS = [[*text.encode(), 256] for text in TEXTS]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    return path


def run(corpus, output, **options):
    return prepare_bytes(corpus, output, **{"unit_bytes": 6_000} | options)


def test_datatrove_s_own_writer_gives_the_same_files(corpus, tmp_path):
    """All that its reader takes: tokens, the ends of documents, and the size of a token."""
    tokens = pytest.importorskip("datatrove.pipeline.tokens.tokenizer")
    run(corpus, tmp_path / "out", format="datatrove", num_shards=1, unit_bytes="1GB")
    (tmp_path / "own").mkdir()
    own = tokens.TokenizedFile(
        str(tmp_path / "own"), "x.ds", tokenizer_name_or_path="tokenmill", save_final_metadata=True
    )
    for ids in DOCUMENTS:
        own.write(ids, None)
    own.close()
    (found,) = (tmp_path / "out" / "shards").glob("*.ds")
    for suffix in ("", ".index"):
        assert (
            found.with_name(found.name + suffix).read_bytes()
            == (tmp_path / "own" / f"x.ds{suffix}").read_bytes()
        )
    ours, theirs = (
        path.read_text().split("\n")
        for path in (found.with_name(found.name + ".metadata"), tmp_path / "own" / "x.ds.metadata")
    )
    assert ours[:2] == theirs[:2] == ["tokenmill|2", str(sum(map(len, DOCUMENTS)))]


def chat_dataset(tmp_path, name, **options):
    turns = [
        [
            {"role": "user", "content": f"Question {number} 안녕?"},
            {"role": "assistant", "content": f"The answer {number} " * (1 + number % 7)},
        ]
        for number in range(60)
    ]
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps({"messages": each}) + "\n" for each in turns), encoding="utf-8")
    tokenizer = tmp_path / "tokenizer"
    if not tokenizer.exists():
        write_chat(tokenizer)
    return tokenmill.prepare(
        str(path), str(tokenizer), tmp_path / name, format=name, verbose_level="ERROR", **options
    )


def masks_of(dataset):
    return [dataset.loss_mask(number).tolist() for number in range(len(dataset))]


@pytest.mark.parametrize("name", ["datatrove", "olmo", "megatron", "npy", "arrow", "parquet"])
def test_conversations_keep_their_loss_mask(name, tmp_path):
    ours = chat_dataset(tmp_path, "tokenmill")
    chat_dataset(tmp_path, name)
    assert {check.state for check in verify_dataset(tmp_path / name)} == {"ok"}
    convert_dataset(tmp_path / name, tmp_path / "back", "tokenmill")
    convert_dataset(tmp_path / "tokenmill", tmp_path / "there", name)
    back, there = tokenmill.open(tmp_path / "back"), load_manifest(tmp_path / "there")
    assert masks_of(back) == masks_of(ours)
    assert any(map(any, masks_of(ours)))
    assert not all(map(all, masks_of(ours)))
    assert there.content_hash == load_manifest(tmp_path / name).content_hash


def test_datatrove_s_own_writer_gives_the_same_loss_file(tmp_path):
    tokens = pytest.importorskip("datatrove.pipeline.tokens.tokenizer")
    ours = chat_dataset(tmp_path, "tokenmill")
    chat_dataset(tmp_path, "datatrove")
    (tmp_path / "own").mkdir()
    own = tokens.TokenizedFile(str(tmp_path / "own"), "x.ds", save_loss_metadata=True)
    for ids, mask in zip(ours, masks_of(ours), strict=True):
        own.write(ids.tolist(), np.array(mask))
    own.close()
    (found,) = (tmp_path / "datatrove" / "shards").glob("*.ds.loss")
    assert found.read_bytes() == (tmp_path / "own" / "x.ds.loss").read_bytes()


def test_a_damaged_datatrove_index_is_told(corpus, tmp_path):
    run(corpus, tmp_path / "out", format="datatrove")
    index = next((tmp_path / "out" / "shards").glob("*.index"))
    index.write_bytes(b"\xff" * index.stat().st_size)
    with pytest.raises(DatasetError, match="has changed since it was written"):
        convert_dataset(tmp_path / "out", tmp_path / "new", "tokenmill")


def test_olmo_files(corpus, tmp_path):
    """As OLMo-core reads them: a bare memmap, and start, end of each document in the table next to it."""
    manifest = run(corpus, tmp_path, format="olmo").manifest
    found = []
    for shard in manifest.shards:
        ids = np.memmap(tmp_path / shard.file("tokens").path, dtype=np.uint16, mode="r")
        with gzip.open(tmp_path / shard.file("documents").path, "rt") as file:
            found += [ids[int(line.split(",")[0]) : int(line.split(",")[1])].tolist() for line in file]
    assert found == DOCUMENTS
    again = run(corpus, tmp_path / "again", format="olmo").manifest
    assert again.content_hash == manifest.content_hash


@pytest.mark.parametrize("name", ["arrow", "parquet"])
def test_whole_documents_with_columns(name, corpus, tmp_path):
    """axolotl takes input_ids, attention_mask and labels of whole documents, and packs them itself."""
    datasets = pytest.importorskip("datasets")
    run(corpus, tmp_path, format=name, columns=("attention_mask", "labels"))
    if name == "arrow":
        table = datasets.load_from_disk(str(tmp_path))
    else:
        files = sorted(map(str, (tmp_path / "shards").glob("*.parquet")))
        table = datasets.Dataset.from_parquet(files, cache_dir=str(tmp_path / "cache"))
    assert table.column_names == ["input_ids", "attention_mask", "labels"]
    assert table["input_ids"][:] == table["labels"][:] == DOCUMENTS
    assert table["attention_mask"][:] == [[1] * len(ids) for ids in DOCUMENTS]


def test_columns_of_a_stream_elsewhere_are_refused_with_the_way_out(corpus, tmp_path):
    with pytest.raises(
        ConfigError, match="or write arrow or parquet, which have them for whole documents too"
    ):
        run(corpus, tmp_path, columns=("labels",))


def test_blend_as_megatron_takes_it(corpus, tmp_path):
    from click.testing import CliRunner

    from tokenmill.cli import cli

    first = run(corpus, tmp_path / "a", format="megatron").manifest
    run(corpus, tmp_path / "b", format="megatron", num_shards=1, unit_bytes="1GB")
    run(corpus, tmp_path / "plain")

    def call(*arguments):
        return CliRunner().invoke(cli, ["dataset", "blend", *map(str, arguments)])

    words = call(tmp_path / "a", tmp_path / "b").output.split()
    prefixes, weights = words[1::2], [float(word) for word in words[::2]]
    assert len(prefixes) == len(first.shards) + 1
    assert all(
        (tmp_path / f"{prefix}{suffix}").is_file() for prefix in prefixes for suffix in (".bin", ".idx")
    )
    assert weights[-1] == pytest.approx(0.5)
    shares = (
        f"{tmp_path / 'a'}=0.9",
        f"{tmp_path / 'b'}=0.1",
        "--output",
        tmp_path / "list",
        "--sequences",
        tmp_path / "s.json",
    )
    assert call(*shares).exit_code == 0
    assert sum(map(float, (tmp_path / "list").read_text().split()[::2])) == pytest.approx(1)
    assert float((tmp_path / "list").read_text().split()[-2]) == pytest.approx(0.1)
    told = json.loads((tmp_path / "s.json").read_text())
    assert sum(sequences for sequences, _ in told.values()) == 2 * len(TEXTS)
    for prefix, counts in told.items():
        # What Megatron's own tool takes from the header of the index.
        assert list(struct.unpack_from("<QQ", Path(f"{prefix}.idx").read_bytes(), 18)) == counts
    for arguments in (
        [tmp_path / "plain"],
        [f"{tmp_path / 'a'}=1", tmp_path / "b"],
        [tmp_path / "a", tmp_path / "a"],
    ):
        assert call(*arguments).exit_code != 0
