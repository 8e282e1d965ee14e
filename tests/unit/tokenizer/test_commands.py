"""The commands encode, decode, inspect and convert, as a user runs them."""

import io
import json
import re
import runpy
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import small_recipe
from tokenmill import Tokenizer
from tokenmill.cli import main

EXAMPLE = Path(__file__).parents[3] / "examples" / "encode_texts.py"


@pytest.fixture
def folder(tmp_path):
    Tokenizer(small_recipe()).save(tmp_path / "tok", "hf")
    return tmp_path


def run(capsys, monkeypatch, *argv, stdin=""):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
    code = 0
    try:
        main([str(word) for word in argv])
    except SystemExit as stop:
        code = stop.code
    out = capsys.readouterr()
    return code, out.out, out.err


def test_encode_and_decode_are_inverse(capsys, monkeypatch, folder):
    tok = Tokenizer.load(folder / "tok")
    code, out, _ = run(capsys, monkeypatch, "encode", "-t", folder / "tok", stdin="hello the thing")
    assert (code, [int(i) for i in out.split()]) == (0, tok.encode("hello the thing"))
    code, text, _ = run(capsys, monkeypatch, "decode", "-t", folder / "tok", stdin=out)
    assert (code, text) == (0, "hello the thing\n")
    code, text, _ = run(capsys, monkeypatch, "decode", "-t", folder / "tok", *out.split(), "--json")
    assert json.loads(text)["text"] == "hello the thing"


def test_encode_lines_tokens_and_counts(capsys, monkeypatch, folder):
    (folder / "lines.txt").write_text("hello\nthe <|end|>\n", encoding="utf-8")
    argv = ("encode", "-t", folder / "tok", folder / "lines.txt", "--lines", "--tokens", "--json")
    _, out, _ = run(capsys, monkeypatch, *argv)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["tokens"] for row in rows] == [["hello"], ["the", " ", "<|end|>"]]
    _, out, _ = run(
        capsys, monkeypatch, "encode", "-t", folder / "tok", folder / "lines.txt", "--lines", "--count"
    )
    assert out.split() == ["1", "3"]


def test_count_takes_directories_and_globs(capsys, monkeypatch, folder):
    tok = Tokenizer.load(folder / "tok")
    texts = {"src/a.py": "hello the thing", "src/deep/b.md": "and <|end|> the 한국어\n" * 60_000, "src/c": ""}
    for name, text in {**texts, "src/.hidden": "hello"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    expected = {str(folder / name): tok.count(text) for name, text in texts.items()}
    argv = ("encode", "-t", folder / "tok", "--count", "--json")
    code, out, err = run(capsys, monkeypatch, *argv, folder / "src")
    *rows, last = map(json.loads, out.splitlines())
    assert code == 0, err
    assert {row["file"]: row["count"] for row in rows} == expected
    assert last == {"files": 3, "total": sum(expected.values())}
    _, out, _ = run(capsys, monkeypatch, *argv, folder / "src" / "**" / "*.*")
    assert [json.loads(line)["count"] for line in out.splitlines()[:-1]] == [
        expected[str(folder / name)] for name in ("src/a.py", "src/deep/b.md")
    ]
    _, out, _ = run(capsys, monkeypatch, *argv[:-1], folder / "src/a.py", folder / "src/c")
    assert [line.split()[:2] for line in out.splitlines()][-1] == [
        str(expected[str(folder / "src/a.py")]),
        "total",
    ]
    _, out, _ = run(capsys, monkeypatch, *argv[:-1], folder / "src/deep/b.md")
    assert out.strip() == str(expected[str(folder / "src/deep/b.md")])
    (folder / "src/bad").write_bytes(b"hello " * 100_000 + b"\xff")
    (folder / "src/small").write_bytes(b"hello \xff")
    for name in ("src", "src/small"):
        code, _, err = run(capsys, monkeypatch, *argv, folder / name)
        assert code == 1
        assert re.search(r"src/(bad|small).*UTF-8", err)
    (folder / "empty").mkdir()
    assert run(capsys, monkeypatch, *argv, folder / "empty")[0] == 2


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.zst", "a.parquet", "a.csv", "a.txt.zst"])
def test_count_reads_documents_as_prepare_does(capsys, monkeypatch, folder, name):
    texts = ["hello the thing", 'and "the" <|end|>', "한국어\n"] * 500
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"n": range(len(texts)), "text": texts}), folder / name)
    else:
        lines = [json.dumps({"n": n, "text": text}) for n, text in enumerate(texts)]
        rows = ["n,text", *(f'{n},"{text.replace(chr(34), chr(34) * 2)}"' for n, text in enumerate(texts))]
        body = "\n".join({"a.csv": rows, "a.txt.zst": ["".join(texts)]}.get(name, lines)).encode()
        compressed = pa.compress(body, "zstd", asbytes=True) if name.endswith(".zst") else body
        (folder / name).write_bytes(compressed)
    expected = sum(Tokenizer.load(folder / "tok").count_batch(texts))
    argv = ("encode", "-t", folder / "tok", "--special", "parse", folder / name)
    code, out, err = run(capsys, monkeypatch, *argv, "--count")
    assert (code, out.strip()) == (0, str(expected)), err
    _, out, _ = run(capsys, monkeypatch, *argv)
    assert len(out.split()) == expected


def test_errors_are_one_line_and_a_code(capsys, monkeypatch, folder):
    code, _, err = run(capsys, monkeypatch, "encode", "-t", folder / "none", stdin="x")
    assert code == 2
    assert "no such file" in err
    code, _, err = run(
        capsys, monkeypatch, "encode", "-t", folder / "tok", "--special", "forbid", stdin="<|end|>"
    )
    assert code == 1
    assert "forbid" in err
    code, _, err = run(capsys, monkeypatch, "decode", "-t", folder / "tok", "abc")
    assert code == 2
    code, _, err = run(capsys, monkeypatch, "encode", "-t", folder / "tok", folder / "missing.txt")
    assert code == 2
    assert "missing.txt" in err


def test_inspect_tells_what_a_tokenizer_is(capsys, monkeypatch, folder):
    code, out, _ = run(capsys, monkeypatch, "inspect", folder / "tok")
    assert code == 0
    assert "native" in out
    _, out, _ = run(capsys, monkeypatch, "inspect", folder / "tok", "--json")
    tok = Tokenizer.load(folder / "tok")
    assert json.loads(out)["tokenizers"][0]["special_tokens"] == tok.special_tokens


@pytest.mark.filterwarnings("ignore:.*cannot hold what it adds")
@pytest.mark.parametrize("kind", ["hf", "tiktoken", "vocab-merges", "minbpe"])
def test_convert_checks_what_it_wrote(capsys, monkeypatch, folder, kind):
    target = (
        folder / {"hf": "out", "vocab-merges": "out", "tiktoken": "out.tiktoken", "minbpe": "out.model"}[kind]
    )
    code, out, err = run(
        capsys, monkeypatch, "tokenizer", "convert", folder / "tok", target, "--format", kind, "--json"
    )
    assert code == 0, err
    assert json.loads(out)["compared"] == 3
    options = {"pattern": "gpt2"} if kind == "tiktoken" else {}
    again = Tokenizer.load(target, special_tokens=Tokenizer.load(folder / "tok").special_tokens, **options)
    assert again.encode("hello the thing <|end|>") == Tokenizer.load(folder / "tok").encode(
        "hello the thing <|end|>"
    )


def test_the_example_runs(capsys, folder):
    example = runpy.run_path(str(EXAMPLE))
    example["main"](folder / "tok")
    assert "the same ids" in capsys.readouterr().out
