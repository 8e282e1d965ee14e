"""The record readers against Python's own json and csv, and against any cut of the input."""

import csv
import io
import json
import math

from hypothesis import example, given
from hypothesis import strategies as st

from reading import read_all
from tokenmill import _core

LIMIT = 1 << 20
TEXT = st.text(st.characters(codec=None), max_size=30)  # lone surrogates included
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.dictionaries(st.sampled_from(["text", "te", "", "x"]) | TEXT, VALUES, max_size=4)


def expected(line):
    """What a line must give: its text, or a reason."""
    if not line.strip(b" \t\r\n"):
        return None
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return "invalid_utf8"
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return "broken_json"
    if not isinstance(record, dict):
        return "not_an_object"
    if "text" not in record:
        return "missing_field"
    value = record["text"]
    if not isinstance(value, str):
        return "not_a_string"
    return "lone_surrogate" if any(0xD800 <= ord(c) < 0xE000 for c in value) else ("ok", value)


def check_line(line):
    records = _core.JsonlReader([["text"]], [], limit=LIMIT, replace=False).read(line)
    data, ends = records.texts
    assert len(ends) - 1 + sum(count for _, count in records.refused) <= 1
    want = expected(line)
    if want is None:
        assert len(ends) == 1
        assert records.refused == []
    elif isinstance(want, tuple):
        assert records.refused == [], (line, want)
        assert bytes(data).decode() == want[1]
    else:
        assert [reason for reason, _ in records.refused] == [want], line


@given(RECORDS, st.booleans())
def test_what_json_writes_is_read(record, ascii_only):
    try:
        line = json.dumps(record, ensure_ascii=ascii_only).encode("utf-8")
    except UnicodeEncodeError:
        line = json.dumps(record).encode()
    check_line(line.replace(b"\n", b" "))


@given(RECORDS, st.data())
def test_a_damaged_line_is_judged_as_python_judges_it(record, data):
    line = bytearray(json.dumps({"text": "a\n\u00e9", **record}).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(line)))
        cut = data.draw(st.integers(0, 2))
        line[at : at + cut] = data.draw(
            st.sampled_from(
                [b"", b'"', b"\\", b"}", b"0", b"\x00", b"\xff", b"\\u12", b"]", b" ", b"e", b"-", b"\t"]
            )
        )
    check_line(bytes(line))


PARTS = [
    '{"text":', '"a"', '"\\ud800"', "{", "}", "[", "]", ",", ":", '"text"', "1", "-", ".", "e", "+", "0",
    "NaN", "-Infinity", "null", "true", " ", "\t", "\\", '"', "é", "\x1f", "\x7f",
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=12))
@example(['{"text":', '"a"', ",", '"text"', ":", "1", "}"])
def test_any_string_of_parts_is_judged_as_python_judges_it(parts):
    check_line("".join(parts).encode())


@given(
    st.lists(RECORDS, max_size=12), st.integers(1, 200), st.integers(1, 80), st.sampled_from(["\n", "\r\n"])
)
def test_any_cut_gives_the_same_lines(tmp_path_factory, records, unit_bytes, block_bytes, newline):
    path = tmp_path_factory.getbasetemp() / "a.jsonl"
    path.write_bytes(newline.join(json.dumps(record) for record in [{"text": "x"}, *records]).encode())
    whole = read_all(path, on_error="skip", text_field="text")
    cut = read_all(path, on_error="skip", text_field="text", unit_bytes=unit_bytes, block_bytes=block_bytes)
    assert cut.texts == whole.texts
    assert cut.rows == whole.rows
    assert cut.refused == whole.refused
    assert sorted(reject.place for reject in cut.rejects) == sorted(reject.place for reject in whole.rejects)


@given(
    st.lists(st.text(max_size=8), max_size=8),
    st.sampled_from(["<|e|>", "\n\n", "ab", "aba", "|"]),
    st.integers(1, 40),
    st.integers(1, 20),
)
def test_any_separator_in_any_cut(tmp_path_factory, texts, separator, unit_bytes, block_bytes):
    path = tmp_path_factory.getbasetemp() / "a.txt"
    content = ("x" + separator.join(texts)).encode()
    path.write_bytes(content)
    want = content.decode().split(separator)
    found = read_all(path, document_separator=separator, unit_bytes=unit_bytes, block_bytes=block_bytes)
    assert found.texts == (want[:-1] if want[-1] == "" else want)


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(
    st.lists(st.tuples(CELLS, CELLS), max_size=8),
    st.integers(2, 60),
    st.sampled_from(["csv", "tsv"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_csv_as_python_writes_it(tmp_path_factory, rows, block_bytes, kind, newline):
    out = io.StringIO(newline="")
    # A bare carriage return in a field without quotes ends the row for Python, and is a character for us.
    quoting = csv.QUOTE_ALL if any("\r" in cell for row in rows for cell in row) else csv.QUOTE_MINIMAL
    delimiter = "," if kind == "csv" else "\t"
    writer = csv.writer(out, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    writer.writerow(["id", "text"])
    writer.writerows(rows)
    path = tmp_path_factory.getbasetemp() / f"a.{kind}"
    path.write_bytes(out.getvalue().encode())
    found = read_all(path, block_bytes=block_bytes, id_field="id")
    read = csv.reader(io.StringIO(out.getvalue(), newline=""), delimiter=delimiter)
    want = [row for row in read if row][1:]
    assert found.texts == [text for _, text in want]
    assert [label or "" for label in found.ids] == [label for label, _ in want]


@given(
    st.lists(RECORDS, max_size=8),
    st.integers(1, 60),
    st.sampled_from(["array", "keyed", "inner"]),
    st.sampled_from([None, 1]),
)
def test_json_values_in_any_cut(tmp_path_factory, records, block_bytes, shape, indent):
    records = [{"text": "first"}, *records]
    shapes = {
        "array": records,
        "keyed": {f"k{number}": record for number, record in enumerate(records)},
        "inner": {"version": 1, "data": records, "end": None},
    }
    path = tmp_path_factory.getbasetemp() / "a.json"
    path.write_text(json.dumps(shapes[shape], indent=indent))
    lines = path.with_name("b.jsonl")
    lines.write_text("\n".join(json.dumps(record) for record in records))
    want = read_all(lines, on_error="skip", text_field="text")
    found = read_all(path, on_error="skip", text_field="text", block_bytes=block_bytes)
    assert (found.texts, found.rows, found.refused) == (want.texts, want.rows, want.refused)


@given(st.lists(st.binary(max_size=10), max_size=8), st.integers(1, 30))
def test_replacing_equals_pythons_own(tmp_path_factory, lines, block_bytes):
    lines = [line.replace(b"\n", b"").replace(b"\r", b"") for line in lines]
    path = tmp_path_factory.getbasetemp() / "a.txt"
    path.write_bytes(b"x\n" + b"".join(line + b"\n" for line in lines))
    found = read_all(path, txt_mode="line", on_error="replace", block_bytes=block_bytes)
    assert found.texts[1:] == [line.decode("utf-8", "replace") for line in lines]
    assert found.replaced["invalid_utf8"] == sum(
        line.decode("utf-8", "replace").count("\ufffd") - line.count("\ufffd".encode()) for line in lines
    )


def test_numbers_that_python_takes_are_taken():
    for number in ("NaN", "-Infinity", "1e400", "-0.0", "1E+5", "9" * 4300):
        check_line(f'{{"text": "a", "n": {number}}}'.encode())
    for number in ("01", "1.", ".5", "+1", "1e", "-", "0x1", "9" * 4301, "Nan"):
        check_line(f'{{"text": "a", "n": {number}}}'.encode())
    assert math.isinf(json.loads("1e400"))
