"""The predicate: a small safe language over columns of any source."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from byte_tokenizer import ByteTokenizer, prepare_bytes
from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.errors import ConfigError
from tokenmill.sources.fields import split_path
from tokenmill.sources.where import Predicate, make_arrow_column, make_text_column

RECORDS = [
    {"text": "a", "lang": "ko", "score": 0.7, "ok": True, "meta": {"src": "web"}, "n": 1},
    {"text": "b", "lang": "en", "score": 0.2, "ok": False, "meta": {"src": "book"}, "n": -3},
    {"text": "c", "lang": None, "score": None, "ok": None, "meta": {"src": None}, "n": None},
]


def json_mask(expression, records=RECORDS):
    predicate = Predicate(expression)
    reader = _core.JsonlReader(
        [["text"]], [list(split_path(name)) for name in predicate.columns], limit=1 << 20, replace=False
    )
    found = reader.read("\n".join(map(json.dumps, records)).encode())
    columns = [
        make_text_column(kinds, Texts(data, ends).to_arrow(), typed=True)
        for kinds, data, ends in found.columns
    ]
    return predicate.mask(dict(zip(predicate.columns, columns, strict=True)), len(records)).tolist()


def arrow_mask(expression):
    batch = pa.RecordBatch.from_pylist(RECORDS)
    predicate = Predicate(expression)
    columns = {}
    for name in predicate.columns:
        path = split_path(name)
        column = batch.column(path[0])
        for key in path[1:]:
            column = column.field(key)
        columns[name] = make_arrow_column(column)
    return predicate.mask(columns, len(RECORDS)).tolist()


KEPT = [
    ('lang == "ko" and score >= 0.5', [1, 0, 0]), ('lang != "ko"', [0, 1, 0]),
    ('not lang == "ko"', [0, 1, 0]), ('lang is None or lang != "ko"', [0, 1, 1]),
    ("lang is not None", [1, 1, 0]), ('lang in ["ko", "zh"]', [1, 0, 0]),
    ('lang not in ("ko", "zh")', [0, 1, 0]), ("lang in []", [0, 0, 0]), ('"e" in lang', [0, 1, 0]),
    ("ok", [1, 0, 0]), ("not ok", [0, 1, 0]), ("ok == False", [0, 1, 0]),
    ("0 < score < 0.5", [0, 1, 0]), ("0.5 <= score", [1, 0, 0]), ("n == -3", [0, 1, 0]),
    ("n > 0.5", [1, 0, 0]), ('meta.src == "web"', [1, 0, 0]), ('field("meta.src") == "book"', [0, 1, 0]),
    ("len(lang) == 2", [1, 1, 0]), ('score == "0.7"', [0, 0, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "expected"), KEPT)
def test_json_and_arrow_agree(expression, expected):
    assert json_mask(expression) == [bool(keep) for keep in expected]
    assert arrow_mask(expression) == json_mask(expression)


def test_a_value_of_another_type_never_depends_on_its_neighbours():
    mixed = [{"text": "", "score": value} for value in (1, "1", True, [1], None)]
    assert json_mask("score >= 1", mixed) == [True, False, False, False, False]
    assert json_mask('score == "1"', mixed) == [False, True, False, False, False]


LARGE = [2**53, 2**53 + 1, 2**63 - 1, -(2**63), 5]


@pytest.mark.parametrize(
    ("expression", "keeps"),
    [
        (f"n == {2**53 + 1}", lambda n: n == 2**53 + 1),
        (f"n > {2**53}", lambda n: n > 2**53),
        (f"n <= {2**53}.0", lambda n: n <= 2**53),
        (f"n >= {2**63 - 1}", lambda n: n >= 2**63 - 1),
        (f"n < {2**63}", lambda n: True),
        (f"n != {2**70}", lambda n: True),
        ("n < 1e999", lambda n: True),
        ("n < 5.5", lambda n: n < 5.5),
        ("n == 5.5", lambda n: False),
        (f"n in [5, {2**53 + 1}]", lambda n: n in {5, 2**53 + 1}),
    ],
)
def test_large_numbers_compare_exactly_in_every_format(tmp_path, expression, keeps):
    table = pa.table({"text": [str(n) for n in LARGE], "n": LARGE})
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    pyarrow.csv.write_csv(table, tmp_path / "a.csv")
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "a.json").write_text(json.dumps(table.to_pylist()))
    pyarrow.feather.write_feather(table, tmp_path / "a.arrow")
    for name in ("a.jsonl", "a.csv", "a.parquet", "a.json", "a.arrow"):
        made = prepare_bytes(tmp_path / name, tmp_path / f"{name}-out", text_field="text", where=expression)
        found = [int(ByteTokenizer().decode(document)) for document in made]
        assert found == [n for n in LARGE if keeps(n)], name


REFUSED = [
    "", "lang ==", 'lang = "ko"', "__import__('os').system('true')", "[x for x in lang]", "lang == other",
    "1 == 1", "score + 1 > 2", "lang < None", "lang == None", f"n > -{10**400}", 'field("x").y', "field(x) == 1",
    'field("a", "b") == 1', 'lang.lower() == "ko"', 'lang == f"{x}"',
    "n == 1j", "n == +1", "n is 5", 'lang in ["ko", other]', 'len("ko") == 2',
    "ok if ok else ok", "(x := 1)", "await ok", "ok ; import os", "True", "(" * 3000 + "lang" + ")" * 3000,
]  # fmt: skip


@pytest.mark.parametrize("expression", REFUSED)
def test_anything_else_is_refused(expression):
    with pytest.raises(ConfigError, match="where"):
        Predicate(expression)


def test_a_refusal_names_the_part():
    with pytest.raises(ConfigError, match=r"'score \+ 1' in .* is not understood; expected a field"):
        Predicate('lang == "ko" and score + 1 > 2')


def test_a_predicate_can_be_sent_to_a_worker():
    predicate = pickle.loads(pickle.dumps(Predicate('a == 1 and b.c == "x"')))
    assert predicate.columns == ("a", "b.c")
    assert (
        predicate.mask(
            {"a": make_arrow_column(pa.array([1])), "b.c": make_arrow_column(pa.array(["x"]))}, 1
        ).dtype
        == np.bool_
    )
