"""`verify` finds every kind of damage; `inspect` and `convert-dataset` give back what went in."""

import hashlib
import json
import platform
import shutil
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer, prepare_bytes
from records import edit_record
from tokenmill.cli.inspect import is_dataset
from tokenmill.datasets.formats.format import MODULES, find_format
from tokenmill.datasets.ledger.manifest import load_manifest
from tokenmill.datasets.mapped import MappedShards
from tokenmill.errors import ConfigError, DatasetError, ResumeError
from tokenmill.pipeline.convert import convert_dataset
from tokenmill.pipeline.verify import verify_dataset
from tokenmill.report.documents import describe_dataset, describe_document

TEXTS = [f"문서 {number} " * (number % 13 + 1) for number in range(150)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made")
    path = root / "a.jsonl"
    lines = [json.dumps({"text": text, "id": f"d{n}"}) + "\n" for n, text in enumerate(TEXTS)]
    path.write_text("\n".join(lines), encoding="utf-8")  # a blank line between two records
    kinds = {"stream": {"provenance": True, "id_field": "id", "deduplicate": True}}
    kinds |= {"rows": {"context_length": 32, "columns": ("labels",)}}
    kinds |= {name: {"format": name} for name in ("megatron", "arrow", "parquet", "npy")}
    for name, options in kinds.items():
        prepare_bytes(path, root / name, unit_bytes=4000, **options)
    return root


def states(path, **options):
    return {check.name: check.state for check in verify_dataset(path, tokenizer=ByteTokenizer(), **options)}


@pytest.mark.parametrize("kind", ["stream", "rows", "megatron", "arrow", "parquet", "npy"])
def test_a_good_dataset_is_good(made, kind):
    found = states(made / kind, sample=3)
    assert set(found.values()) == {"ok"}, found
    assert sum(name.startswith("sources of") for name in found) == 3


def flip(path, at=-1):
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def wrong_id(root, shard):
    """An id outside of the vocabulary, with a hash that agrees: only looking at every id finds it."""
    path = root / shard.file("tokens").path
    ids = np.fromfile(path, "<u2")
    ids[5] = 60000
    ids.tofile(path)
    rehash(root, shard, "tokens")


def wrong_offset(root, shard):
    path = root / shard.file("offsets").path
    raw = np.fromfile(path, "<u8")
    raw[4] = 1 << 40
    raw.tofile(path)
    rehash(root, shard, "offsets")


def rehash(root, shard, role):
    digest = hashlib.sha256((root / shard.file(role).path).read_bytes()).hexdigest()

    def put(entries):
        for entry in entries:
            if entry["path"] == shard.file(role).path:
                entry["sha256"] = digest

    edit_record(root / "receipts" / f"{shard.name}.json", lambda raw: put(raw["files"]))
    edit_record(root / "manifest.json", lambda raw: [put(each["files"]) for each in raw["shards"]])


DAMAGE = {
    "a flipped bit": (lambda root, shard: flip(root / shard.file("tokens").path), "files of"),
    "a flipped bit in an index": (lambda root, shard: flip(root / shard.file("offsets").path), "files of"),
    "a truncated shard": (
        lambda root, shard: (root / shard.file("tokens").path).write_bytes(b"12"),
        "files of",
    ),
    "a missing shard": (lambda root, shard: (root / shard.file("tokens").path).unlink(), "files of"),
    "an id outside of the vocabulary": (wrong_id, "contents of"),
    "an offset outside of the shard": (wrong_offset, "contents of"),
    "a count that is wrong": (
        lambda root, shard: edit_record(
            root / "manifest.json", lambda raw: raw["shards"][1].update(tokens=7)
        ),
        "manifest",
    ),
    "an account that does not balance": (
        lambda root, shard: edit_record(
            root / "manifest.json", lambda raw: raw["account"]["documents"].update(read=9)
        ),
        "manifest",
    ),
    "another packing": (
        lambda root, shard: edit_record(root / "manifest.json", lambda raw: raw["packing"].update(eos_id=7)),
        "plan",
    ),
    "another size of the vocabulary": (
        lambda root, shard: edit_record(
            root / "manifest.json", lambda raw: raw["tokenizer"].update(vocab_size=300)
        ),
        "tokenizer",
    ),
    "a damaged plan": (lambda root, shard: flip(root / "plan.json", 40), "plan"),
    "a damaged receipt": (lambda root, shard: flip(root / "receipts" / f"{shard.name}.json", 40), "receipts"),
    "a receipt of another shard": (
        lambda root, shard: (root / "receipts" / f"{shard.name}.json").write_bytes(
            (root / "receipts" / f"{load_manifest(root).shards[0].name}.json").read_bytes()
        ),
        "receipts",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_every_kind_of_damage_is_found(made, tmp_path, damage):
    root = tmp_path / "copy"
    shutil.copytree(made / "stream", root)
    hurt, where = DAMAGE[damage]
    hurt(root, load_manifest(root).shards[1])
    problems = [name for name, state in states(root, sample=0).items() if state == "problem"]
    assert any(name.startswith(where) for name in problems), problems


def test_other_tokens_with_right_hashes_are_found_by_making_them_again(made, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(made / "stream", root)
    shard = load_manifest(root).shards[0]
    path = root / shard.file("tokens").path
    ids = np.fromfile(path, "<u2")
    ids[5] += 1
    ids.tofile(path)
    rehash(root, shard, "tokens")
    assert set(states(root, sample=0).values()) == {"ok"}
    assert states(root, sample=1)[f"sources of {shard.name}"] == "problem"


def test_no_manifest_is_said(tmp_path):
    with pytest.raises(DatasetError, match="no such directory"):
        list(verify_dataset(tmp_path / "none"))


def test_inspect_finds_the_origin(made):
    assert is_dataset(made / "stream")
    assert not is_dataset(made)
    kept = list(dict.fromkeys(TEXTS))
    for number in (0, 40, len(kept) - 1):
        found = describe_document(made / "stream", number, ByteTokenizer())
        source = TEXTS.index(kept[number])
        assert found["text"] == kept[number]
        assert found["origin"]["id"] == f"d{source}"
        assert found["origin"]["input"].endswith("a.jsonl")
        line = (made / "a.jsonl").read_text(encoding="utf-8").split("\n")[found["origin"]["row"]]
        assert json.loads(line)["id"] == f"d{source}"
    assert describe_document(made / "rows", 3, ByteTokenizer())["origin"] is None
    assert describe_document(made / "megatron", 3, ByteTokenizer())["text"] == TEXTS[3]
    assert describe_dataset(made / "rows")["packing"]["view"]["context_length"] == 32


def items_of(root):
    shards, found = MappedShards(root, load_manifest(root)), []
    for index in range(len(shards.entries)):
        for _, ids, offsets in shards.read_documents(index):
            found += [ids[a:b].tolist() for a, b in pairwise(offsets)]
    return found


@pytest.mark.parametrize("source", ["stream", "megatron", "arrow", "parquet", "npy"])
@pytest.mark.parametrize("target", MODULES)
def test_convert_between_all(made, tmp_path, source, target):
    convert_dataset(made / source, tmp_path / "out", target)
    assert "problem" not in states(tmp_path / "out").values()
    if find_format(target).readable:
        assert items_of(tmp_path / "out") == items_of(made / source)


def test_convert_refuses_what_would_be_lost(made, tmp_path):
    with pytest.raises(ConfigError, match="holds token ids and a loss mask only, not labels"):
        convert_dataset(made / "rows", tmp_path / "a", "megatron", columns=("labels",))
    convert_dataset(made / "rows", tmp_path / "b", "arrow")
    convert_dataset(made / "rows", tmp_path / "c", "megatron")
    assert items_of(tmp_path / "c") == items_of(tmp_path / "b")
    with pytest.raises(DatasetError, match="documents cannot be read from the rows of"):
        convert_dataset(tmp_path / "b", tmp_path / "d", "npy")
    with pytest.raises(ConfigError, match="contains another dataset"):
        convert_dataset(made / "stream", made / "rows", "arrow")


@pytest.mark.parametrize(
    "view",
    [{"packing": "bestfit"}, {"packing": "separate", "overlap": 4}, {"packing": "bestfit", "multiple_of": 8}],
)
def test_convert_changes_the_packing(made, tmp_path, view):
    columns = ("labels", "position_ids")
    options = {"context_length": 48, "columns": columns, **view}
    manifest = convert_dataset(made / "rows", tmp_path / "out", "parquet", **options)
    rows = tokenmill.open(made / "rows").rows(**options)
    batch = rows.gather(np.arange(len(rows)))
    assert "problem" not in states(tmp_path / "out", sample=0).values()
    assert items_of(tmp_path / "out") == batch["input_ids"].tolist()
    table = pa.concat_tables(
        pq.read_table(tmp_path / "out" / shard.file("table").path) for shard in manifest.shards
    )
    for name in columns:
        assert np.array_equal(table[name].combine_chunks().flatten().to_numpy(), batch[name].reshape(-1))
    documents = convert_dataset(made / "rows", tmp_path / "whole", "npy", packing="stream")
    assert documents.layout == "documents"
    assert items_of(tmp_path / "whole") == items_of(made / "rows")


def test_a_conversion_goes_on_where_it_was_killed(made, tmp_path):
    whole = convert_dataset(made / "stream", tmp_path / "out", "npy")
    assert convert_dataset(made / "stream", tmp_path / "out", "npy") == whole
    with pytest.raises(ConfigError, match="contains another dataset"):
        convert_dataset(made / "stream", tmp_path / "out", "npy", dtype="int64")
    (tmp_path / "out" / "manifest.json").unlink()
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    left = tmp_path / "out" / "shards" / f".tmp-{platform.node()}-{int(dead.stdout)}-0a1b-00000.npy"
    left.write_bytes(b"half")
    assert convert_dataset(made / "stream", tmp_path / "out", "npy") == whole
    assert not left.exists()


def test_a_converted_dataset_is_not_added_to(made, tmp_path):
    convert_dataset(made / "stream", tmp_path / "out", "npy")
    with pytest.raises(ResumeError, match="converted_from"):
        prepare_bytes(made / "a.jsonl", tmp_path / "out", format="npy")
