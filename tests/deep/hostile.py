"""Invalid files: records, archives, tables and tokenizers, made by hand and by mutation.

Each is small; what it may cost to read is what the tests look at.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import random
from typing import TYPE_CHECKING

import lz4.frame
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from small_tokenizers import make_bpe

if TYPE_CHECKING:
    from collections.abc import Iterator

GOOD_LINES = "".join(
    json.dumps({"text": f"문서 {n} text", "lang": "ko", "n": n}) + "\n" for n in range(60)
).encode()
TABLE = pa.table({"text": [f"row {n}" for n in range(60)], "n": list(range(60))})


def _parquet(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=20, **options)
    return sink.getvalue()


def _arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pa.feather.write_feather(table, sink, compression="uncompressed")
    return sink.getvalue()


def _bad_strings() -> pa.Table:
    """A column that is called a string and holds bytes that are not UTF-8."""
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2, 4, 6)))
    array = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"ok\xff\xfeok"))
    return pa.table({"text": array})


def _bomb(size: int = 64 << 20) -> bytes:
    return gzip.compress(b'{"text": "' + b"a" * size + b'"}\n', 9, mtime=0)


def records() -> Iterator[tuple[str, bytes]]:
    """Name -> bytes; the name's ending is what a user would have given it."""
    yield "empty.jsonl", b""
    yield "only-newlines.jsonl", b"\n" * 1000
    yield "only-a-mark.jsonl", b"\xef\xbb\xbf"
    yield "mark.jsonl", b"\xef\xbb\xbf" + GOOD_LINES
    yield "utf16.jsonl", GOOD_LINES.decode().encode("utf-16")
    yield "zeros.jsonl", bytes(100_000)
    yield "no-newline.jsonl", b'{"text": "' + b"a" * 300_000
    yield "deep-arrays.jsonl", b"[" * 200_000 + b"]" * 200_000
    yield "deep-objects.jsonl", b'{"a":' * 200_000
    yield "deep-value.jsonl", b'{"text": "a", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    yield "big-numbers.jsonl", b'{"text": "a", "x": ' + b"9" * 50_000 + b', "y": 1e999999}\n'
    yield "surrogates.jsonl", b'{"text": "\\ud800"}\n{"text": "\\udc00\\ud800"}\n'
    yield "doubled-keys.jsonl", b'{"text": 1, "text": "a", "text": null}\n' * 100
    yield "not-unicode.jsonl", b'{"text": "\xff\xfe\xed\xa0\x80"}\n' * 100
    yield "keys-not-strings.jsonl", b"{1: 2}\n{null: 3}\n{}\n[]\n3\nnull\n"
    yield (
        "many-fields.jsonl",
        (json.dumps({f"f{n}": "x" for n in range(5000)} | {"text": "a"}) + "\n").encode(),
    )
    yield "random.jsonl", random.Random(1).randbytes(50_000)
    yield "array.json", b"[" + b'{"text": "a"},' * 1000
    yield "array-of-arrays.json", b"[" * 1000 + b"]" * 1000
    yield "deep.json", b'{"data": ' * 100_000
    yield "number.json", b"12"
    yield "string.json", b'"' + b"a" * 10_000
    yield "open-quote.csv", b'id,text\n1,"never closed\n' + b"x,y\n" * 10_000
    yield "ragged.csv", b"id,text\n1\n2,3,4,5\n,,,,,,\n"
    yield "no-text.csv", b"a,b\n1,2\n"
    yield "zeros.csv", b"id,text\n\0,\0\n" * 100
    yield "wide.csv", b"," * 100_000 + b"\n" + b"," * 100_000 + b"\n"
    yield "same-names.csv", b"text,text,text\n1,2,3\n"
    yield "only-header.csv", b"id,text\n"
    yield "random.tsv", random.Random(2).randbytes(20_000)
    yield "zeros.txt", bytes(100_000)
    yield "random.txt", random.Random(3).randbytes(50_000)
    yield "one-line.txt", b"a" * 2_000_000
    yield "spaces.txt", b" " * 2_000_000
    yield "marks.txt", "\u0301".encode() * 200_000


def archives() -> Iterator[tuple[str, bytes]]:
    """Compressed files that are cut short, damaged, doubled, or far larger than they look."""
    packed = {
        "gz": gzip.compress(GOOD_LINES, mtime=0),
        "zst": pa.compress(GOOD_LINES, codec="zstd", asbytes=True),
        "bz2": bz2.compress(GOOD_LINES),
        "xz": lzma.compress(GOOD_LINES),
        "lz4": lz4.frame.compress(GOOD_LINES),
    }
    for ending, data in packed.items():
        yield f"cut.jsonl.{ending}", data[: len(data) // 2]
        yield f"cut-early.jsonl.{ending}", data[:5]
        yield f"trailing.jsonl.{ending}", data + b"garbage behind the end"
        yield f"doubled.jsonl.{ending}", data + data
        yield f"empty.jsonl.{ending}", b""
        yield f"not-packed.jsonl.{ending}", GOOD_LINES
        middle = len(data) // 2
        yield f"damaged.jsonl.{ending}", data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]
    yield "bomb.jsonl.gz", _bomb()
    yield "nested-bomb.jsonl.gz", gzip.compress(_bomb(), mtime=0)
    yield "zeros.jsonl.zst", pa.compress(bytes(64 << 20), codec="zstd", asbytes=True)


def tables() -> Iterator[tuple[str, bytes]]:
    """Parquet and Arrow files whose frame, footer or columns lie."""
    good, arrow = _parquet(TABLE), _arrow(TABLE)
    yield "empty.parquet", b""
    yield "magic-only.parquet", b"PAR1PAR1"
    yield "cut.parquet", good[:-200]
    yield "no-head.parquet", good[100:]
    yield "footer-size.parquet", good[:-8] + (0x7FFFFFFF).to_bytes(4, "little") + b"PAR1"
    yield "no-rows.parquet", _parquet(TABLE.slice(0, 0))
    yield "no-text.parquet", _parquet(pa.table({"n": [1, 2]}))
    yield "numbers.parquet", _parquet(pa.table({"text": [1, 2, 3]}))
    yield "nested.parquet", _parquet(pa.table({"text": [["a", "b"], ["c"]]}))
    yield "nulls.parquet", _parquet(pa.table({"text": pa.array([None, "a", None])}))
    yield "bad-strings.parquet", _parquet(_bad_strings())
    yield "binary.parquet", _parquet(pa.table({"text": pa.array([b"\xff", b"ok"])}))
    yield "empty.arrow", b""
    yield "cut.arrow", arrow[:-100]
    yield "bad-strings.arrow", _arrow(_bad_strings())
    yield "magic-only.arrow", b"ARROW1\0\0"
    yield from mutants("mutant", {"parquet": good, "arrow": arrow}, 40)


def mutants(name: str, good: dict[str, bytes], count: int) -> Iterator[tuple[str, bytes]]:
    """Seeded mutations of good files, as a fuzzer makes them: flips, cuts, copies, insertions."""
    for ending, data in good.items():
        chosen = random.Random(f"{name}-{ending}")
        for number in range(count):
            mutant = bytearray(data)
            for _ in range(chosen.choice((1, 1, 3, 10))):
                at = chosen.randrange(len(mutant))
                change = chosen.randrange(4)
                if change == 0:
                    mutant[at] = chosen.randrange(256)
                elif change == 1:
                    del mutant[at : at + chosen.randrange(1, 40)]
                elif change == 2:
                    mutant[at:at] = chosen.randbytes(chosen.randrange(1, 20))
                else:
                    mutant[at:at] = mutant[at : at + chosen.randrange(1, 60)]
                mutant = mutant or bytearray(b"x")
            yield f"{name}-{number:03}.{ending}", bytes(mutant)


def tokenizers() -> Iterator[tuple[str, bytes]]:
    """Tokenizer files with parts that are missing, of another type, too deep, too large or against each other."""
    good = make_bpe()
    text = json.dumps(good)
    values = [None, 1, -1, 1.5, True, "x", [], {}, [None], {"type": "Nothing"}, [[["x"]]], "a" * 10_000]
    for key in good:
        yield f"without-{key}.json", json.dumps({k: v for k, v in good.items() if k != key}).encode()
        for number, value in enumerate(values):
            yield f"{key}-{number}.json", json.dumps(good | {key: value}).encode()
    model = good["model"]
    for key in ("type", "vocab", "merges"):
        for number, value in enumerate(values):
            yield f"model-{key}-{number}.json", json.dumps(good | {"model": model | {key: value}}).encode()
    for number, value in enumerate(values[1:]):
        for key in (
            "dropout",
            "unk_token",
            "continuing_subword_prefix",
            "end_of_word_suffix",
            "byte_fallback",
            "ignore_merges",
        ):
            yield f"model-{key}-{number}.json", json.dumps(good | {"model": model | {key: value}}).encode()
    yield "huge-id.json", text.replace('"the": 257', '"the": 4294967295').encode()
    yield "larger-id.json", text.replace('"the": 257', '"the": 99999999999999999999').encode()
    yield "same-id.json", text.replace('"the": 257', '"the": 256').encode()
    yield "negative-id.json", text.replace('"the": 257', '"the": -257').encode()
    yield "merge-of-nothing.json", text.replace("th e", "q zz").encode()
    yield "merge-of-three.json", text.replace("th e", "t h e").encode()
    yield "merge-again.json", text.replace('"th e"', '"t h"').encode()
    deep = "[" * 100_000 + "]" * 100_000
    yield "deep.json", deep.encode()
    yield "deep-key.json", text.replace('"normalizer": null', f'"normalizer": {deep}').encode()
    sequence = '{"type": "Sequence", "normalizers": [' * 5000 + "]}" * 5000
    yield "deep-sequence.json", text.replace('"normalizer": null', f'"normalizer": {sequence}').encode()
    for name, value in normalizers():
        yield f"normalizer-{name}.json", json.dumps(good | {"normalizer": value}).encode()
    for name, pattern in (
        ("slow", "(a+)+$"),
        ("open", "(a"),
        ("huge", "a{100000}{1000}"),
        ("back", r"(.)\1"),
        ("look", "(?<=a*)b"),
    ):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        yield f"split-{name}.json", json.dumps(good | {"pre_tokenizer": split}).encode()
    lines = [base64.b64encode(bytes([byte])).decode() + f" {byte}" for byte in range(256)]
    ranks = "\n".join(lines).encode()
    yield "good.tiktoken", ranks
    yield "empty.tiktoken", b""
    yield "no-rank.tiktoken", ranks + b"\naGk="
    yield "same-rank.tiktoken", ranks + b"\naGk= 7"
    yield "huge-rank.tiktoken", ranks + b"\naGk= 99999999999999"
    yield "not-base64.tiktoken", ranks + b"\n!!!! 256"
    yield "random.tiktoken", random.Random(4).randbytes(5000)
    yield "empty.model", b""
    yield "random.model", random.Random(5).randbytes(5000)
    yield "cut.model", b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\n\x0e"
    yield "endless.model", b"\n\xff\xff\xff\xff\x0f"
    yield from mutants("mutant", {"json": text.encode(), "tiktoken": ranks}, 60)


def normalizers() -> Iterator[tuple[str, object]]:
    """Steps that grow a text, name an invalid map, or loop."""
    yield (
        "precompiled",
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(bytes(range(256))).decode()},
    )
    yield "precompiled-short", {"type": "Precompiled", "precompiled_charsmap": "AAA="}
    yield (
        "precompiled-huge",
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(b"\xff" * 64).decode()},
    )
    grow = {"type": "Replace", "pattern": {"String": "t"}, "content": "t" * 100}
    yield "grow", {"type": "Sequence", "normalizers": [grow] * 12}
    yield "grow-nothing", {"type": "Replace", "pattern": {"String": ""}, "content": "x"}
    yield "regex", {"type": "Replace", "pattern": {"Regex": "(a*)*"}, "content": "x"}
    yield "prepend", {"type": "Prepend", "prepend": "x" * 1_000_000}
    yield "unknown", {"type": "Whatever"}
