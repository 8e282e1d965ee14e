"""A plan comes back as it was saved, and corrupt plans are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import edit_bytes
from tokenmill.base.records import encode_record
from tokenmill.datasets.ledger.manifest import PackingIdentity, Target, TokenizerIdentity
from tokenmill.datasets.ledger.plan import Part, Plan, Unit, parse_plan
from tokenmill.errors import DatasetError
from tokenmill.sources.model import InputFile, Range

TARGET = Target("tokenmill", "uint16", TokenizerIdentity("t", "f", 256), PackingIdentity())
FILES = st.builds(
    InputFile,
    url=st.sampled_from(["/a/1", "/a/2", "/a/b/1", "s3://bucket/1", "plain", "/", "/a//1", "/\udce9/x"]),
    size=st.integers(0, 9),
    identity=st.text(max_size=3),
    format=st.sampled_from(["txt", "jsonl"]),
    compression=st.sampled_from([None, "zstd"]),
    split=st.sampled_from([None, "train"]),
    txt_mode=st.sampled_from([None, "file"]),
    separator=st.sampled_from([None, "\n\n"]),
    notes=st.sampled_from([(), ("a", "b")]),
)


@given(st.lists(FILES, min_size=1, max_size=6), st.data())
def test_inputs_and_parts_come_back(files, data):
    whole = [Part(at, Range("file", 0, file.size, file.size)) for at, file in enumerate(files)]
    cut = [Part(at, Range("bytes", 0, 1, 1)) for at in range(len(files))]
    parts = data.draw(st.lists(st.sampled_from(whole + cut)))
    plan = Plan(TARGET, {"a.b": [1, None]}, tuple(files), (Unit(0, "u", tuple(parts)),), 100)
    assert parse_plan(encode_record(plan.to_json()), "it") == plan


def plan_bytes():
    parts = (Part(0, Range("file", 0, 5, 5)), Part(1, Range("bytes", 0, 3, 3)))
    files = (InputFile("a/1", 5, "i", "txt"), InputFile("a/2", 6, "j", "txt"))
    return encode_record(Plan(TARGET, {}, files, (Unit(0, "u", parts),), 100).to_json())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw.update(plan_version=1), "plan_version 1, this tokenmill reads 3"),
        (lambda raw: raw.update(inputs="none"), "inputs is .*none.*, expected"),
        (lambda raw: raw["inputs"][0].update(size="x"), r"inputs\[0\].size is"),
        (lambda raw: raw["inputs"][0].update(more=1), r"inputs\[0\].more is an unknown key"),
        (
            lambda raw: raw["units"][0]["parts"].append([2, "bytes", 0, 1, 1]),
            "unit u reads an input that is not listed",
        ),
        (lambda raw: raw["units"][0]["parts"].append([1, "bytes"]), r"units\[0\].parts\[2\]"),
    ],
)
def test_plan_damage(change, words):
    with pytest.raises(DatasetError, match=f"it .*{words}"):
        parse_plan(edit_bytes(plan_bytes(), change), "it")
