"""docs/format.md names the keys of real records, all of them, in order, and no others."""

import json
import re
from pathlib import Path

import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer

DOCUMENT = (Path(__file__).parents[3] / "docs" / "format.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("documented")
    (root / "a.jsonl").write_text('{"text": "a text"}\n{broken\n{"text": " "}\n')
    tokenmill.prepare(
        inputs=str(root / "a.jsonl"),
        tokenizer=ByteTokenizer(),
        output=str(root / "out"),
        on_error="skip",
        provenance=True,
        report=False,
        verbose_level="ERROR",
    )
    return root / "out"


def section(title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", DOCUMENT, re.DOTALL | re.MULTILINE)[1]


def documented(title):
    """`{key: the keys of its object or of its items, where the table tells}` of a section's first table."""
    keys = {}
    for cell, value in re.findall(r"^\| (`.*?) \| (.*?) \|$", section(title), re.MULTILINE):
        inner = re.search(r"`\{(\"\w+\"(?:, \"\w+\")*)\}`", value)
        for key in re.findall(r"`(\w+)`", cell):
            keys[key] = re.findall(r'"(\w+)"', inner[1]) if inner else None
    return keys


@pytest.mark.parametrize(
    ("title", "path"),
    [("manifest.json", "manifest.json"), ("Receipts", "receipts/*.json"), ("plan.json", "plan.json")],
)
def test_the_documented_keys_are_those_of_a_real_record(made, title, path):
    value = json.loads(next(made.glob(path)).read_text())
    told = documented(title)
    assert list(told) == list(value)
    for key, inner in told.items():
        if inner is not None:
            item = value[key][0] if isinstance(value[key], list) else value[key]
            assert inner == list(item), key


def shape(value):
    """The keys of an object, and of the objects in it; counts by reason have none of their own."""
    return {
        key: shape(item)
        if isinstance(item, dict) and key not in {"dropped", "rejected", "replaced"}
        else None
        for key, item in value.items()
    }


def test_the_documented_account_and_shard_entry_are_real(made):
    manifest = json.loads((made / "manifest.json").read_text())
    (account,) = re.findall(r"```json\n(.*?)```", section("The account"), re.DOTALL)
    assert shape(json.loads(account)) == shape(manifest["account"])
    (entry,) = re.findall(r"```json\n(.*?)```", section("manifest.json"), re.DOTALL)
    entry = json.loads(entry)
    assert list(entry) == list(manifest["shards"][0])
    assert list(entry["files"][0]) == list(manifest["shards"][0]["files"][0])


def test_the_documented_provenance_is_real(made):
    import pyarrow as pa

    with pa.memory_map(str(next((made / "shards").glob("*.src")))) as source:
        names = pa.ipc.open_file(source).schema.names
    told = re.findall(r"`(\w+)` \((?:int|large)", section("Provenance (setting `provenance`)"))
    assert told == names
