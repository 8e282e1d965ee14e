"""Corruption: a changed manifest, plan or receipt is rejected with a message, or has the same content."""

import json
import shutil
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tokenmill
from byte_tokenizer import ByteTokenizer, prepare_bytes
from records import edit_record
from tokenmill.base.records import CHECKSUM
from tokenmill.datasets.ledger.manifest import load_manifest, parse_manifest
from tokenmill.datasets.ledger.plan import parse_plan
from tokenmill.datasets.ledger.receipt import parse_receipt
from tokenmill.errors import DatasetError, TokenmillError
from tokenmill.pipeline.verify import verify_dataset

TEXTS = [f"문서 {number} " * (number % 7 + 1) for number in range(60)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A dataset of rows with columns and rejects: every part of a record has something in it."""
    root = tmp_path_factory.mktemp("rot")
    lines = [json.dumps({"text": text}) for text in TEXTS]
    (root / "a.jsonl").write_text("\n".join([*lines, "{broken"]))
    options = {"context_length": 32, "columns": ("labels",), "on_error": "skip", "unit_bytes": 2000}
    prepare_bytes(root / "a.jsonl", root / "out", **options)
    return root / "out"


def mutations(data, step):
    """The file with one byte changed, at every place: a bit flipped, and a byte that means something in JSON."""
    for place in range(len(data)):
        for byte in (data[place] ^ 1 << place % 8, b'0 "}e\\'[(place // step) % 6]):
            if byte != data[place]:
                yield data[:place] + bytes([byte]) + data[place + 1 :]


@pytest.mark.parametrize("kind", ["manifest", "plan", "receipt"])
def test_no_changed_byte_changes_what_is_read(made, kind):
    manifest = load_manifest(made)
    path, parse = {
        "manifest": (made / "manifest.json", lambda data: parse_manifest(data, "the manifest")),
        "plan": (made / "plan.json", lambda data: parse_plan(data, "the plan")),
        "receipt": (
            made / "receipts" / f"{manifest.shards[0].name}.json",
            lambda data: parse_receipt(data, "the receipt"),
        ),
    }[kind]
    data = path.read_bytes()
    parse(data)
    for changed in mutations(data, 7):
        with pytest.raises(DatasetError):
            parse(changed)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.just("../../etc/passwd"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def places(value, path=()):
    """Every place in a JSON value, as the keys that lead there."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield from places(item, (*path, key))


def put(value, path, item):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = item


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_hostile_manifest_never_ends_in_anything_but_our_error(made, tmp_path, data):
    root = tmp_path / "copy"
    if not root.exists():
        shutil.copytree(made, root)
    value = json.loads((made / "manifest.json").read_text())
    del value[CHECKSUM]
    path = data.draw(st.sampled_from([path for path in places(value) if path]))
    item = data.draw(JSON)
    (root / "manifest.json").write_bytes((made / "manifest.json").read_bytes())
    try:
        edit_record(root / "manifest.json", lambda raw: put(raw, path, item))
    except (TypeError, KeyError, UnicodeEncodeError, AttributeError):
        return  # the edit itself has no content hash
    with suppress(TokenmillError):
        dataset = tokenmill.open(root)
        rows = dataset.rows(columns=("document_ids",))
        for place in range(min(3, len(rows))):
            rows.example(place)
        list(dataset)
        list(verify_dataset(root, sample=0, tokenizer=ByteTokenizer()))
