"""A plan's inputs in groups are the same inputs, and parts in runs the same parts."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tokenmill.datasets.ledger.plan import Part, join_parts, list_parts
from tokenmill.datasets.ledger.plan_inputs import group_inputs, list_inputs
from tokenmill.sources.model import InputFile, Range

FILES = st.builds(
    InputFile,
    url=st.sampled_from(["/a/1", "/a/2", "/a/b/1", "s3://bucket/1", "plain", "/", "/a//1"]),
    size=st.integers(0, 9),
    identity=st.text(max_size=3),
    format=st.sampled_from(["txt", "jsonl"]),
    compression=st.sampled_from([None, "zstd"]),
    split=st.sampled_from([None, "train"]),
    txt_mode=st.sampled_from([None, "file"]),
    separator=st.sampled_from([None, "\n\n"]),
    notes=st.sampled_from([(), ("a", "b")]),
)


@given(st.lists(FILES))
def test_inputs_come_back_from_their_groups(files):
    listed = list_inputs(json.loads(json.dumps(group_inputs(files))))
    assert [InputFile(**each | {"notes": tuple(each.get("notes", ()))}) for each in listed] == files


@given(st.lists(FILES, min_size=1, max_size=6), st.data())
def test_parts_come_back_from_their_runs(files, data):
    whole = [Part(at, Range("file", 0, file.size, file.size)) for at, file in enumerate(files)]
    cut = [Part(at, Range("bytes", 0, 1, 1)) for at in range(len(files))]
    parts = data.draw(st.lists(st.sampled_from(whole + cut)))
    written = json.loads(json.dumps({"parts": join_parts(parts, files)}))
    listed = list_parts(written, [{"size": file.size} for file in files])["parts"]
    assert listed == [part.to_json() for part in parts]


def test_what_is_damaged_is_left_for_the_reader():
    assert list_inputs("no list") == "no list"
    assert list_inputs([1, {"folder": 2}, {"folder": "a/", "files": [[1], "x"]}]) == [
        1,
        {"folder": 2},
        [1],
        "x",
    ]
    assert list_parts({"parts": [[0, 9]]}, [{}]) == {"parts": [[0, 9]]}
    assert list_parts({"parts": [[0, 1]]}, [3]) == {"parts": [[0, "file", 0, None, None]]}
    assert list_parts(3, []) == 3
