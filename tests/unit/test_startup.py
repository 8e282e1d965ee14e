"""What a start may import: counted in modules, since time depends on the machine."""

import subprocess
import sys

import pytest

from small_tokenizers import write_bpe

HEAVY = {"numpy", "pyarrow", "pydantic", "psutil", "yaml", "rich", "fsspec", "click"}
HEAVY |= {"asyncio", "multiprocessing"}


def modules_after(code: str) -> set[str]:
    listing = "\nimport sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code + listing], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.splitlines()[-1].split())


def test_import_brings_next_to_nothing():
    fresh = modules_after("import tokenmill") - modules_after("")
    assert {name for name in fresh if name.startswith("tokenmill")} == {"tokenmill", "tokenmill.errors"}
    assert len(fresh) < 40, sorted(fresh)


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [(["--help"], {"click"}), (["config", "show"], {"click"}), (["encode", "--help"], {"click"})],
)
def test_short_commands_import_nothing_heavy(arguments, allowed):
    loaded = modules_after(f"from tokenmill.cli import main\nmain({arguments!r})")
    assert not loaded & HEAVY - allowed


def test_a_table_without_nulls_is_prepared_without_pandas(tmp_path):
    pytest.importorskip("pandas")
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    pq.write_table(pa.table({"text": ["low lower lowest"] * 9}), tmp_path / "a.parquet")
    prepare = (
        "import tokenmill\n"
        "tokenizer = tokenmill.train_from_iterator(['low lower lowest'] * 9, 260, progress=False)\n"
        f"tokenmill.prepare({str(tmp_path)!r}, tokenizer, {str(tmp_path / 'out')!r}, verbose_level='ERROR')"
    )
    assert "pandas" not in modules_after(prepare)


def test_a_line_is_encoded_without_numpy(tmp_path):
    load = (
        f"from tokenmill import Tokenizer\nTokenizer.load({str(write_bpe(tmp_path))!r}).encode('in the doc')"
    )
    assert not modules_after(load) & {"numpy", "psutil"}


@pytest.mark.parametrize("job", ["train", "prepare"])
def test_plain_files_are_read_without_arrow(tmp_path, job):
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"text": "low lower lowest"}\n' * 9)
    code = f"import tokenmill\ntokenizer = tokenmill.train({str(lines)!r}, 260, progress=False)\n"
    if job == "prepare":
        out = str(tmp_path / "out")
        code += f"tokenmill.prepare({str(lines)!r}, tokenizer, {out!r}, verbose_level='ERROR')"
    loaded = modules_after(code)
    assert not loaded & ({"pyarrow", "pydantic", "numpy"} if job == "train" else {"pyarrow"})
