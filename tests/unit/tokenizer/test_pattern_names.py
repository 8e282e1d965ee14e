"""The core has the one table of families: docs and commands agree with it, and Python holds no pattern."""

import re
from pathlib import Path

import pytest

from tokenmill import _core
from tokenmill.cli import main
from tokenmill.compat import minbpe

ROOT = Path(__file__).parents[3]


def test_the_docs_name_every_family_and_no_other():
    text = (ROOT / "docs" / "tokenizer.md").read_text(encoding="utf-8")
    table = text.partition("| name | the same as | cuts |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [[re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:3]] for line in table.splitlines()]
    assert rows == [[[family.name], family.aliases] for family in _core.families()]


def test_python_holds_no_pattern():
    package = ROOT / "python" / "tokenmill"
    found = {path for path in package.rglob("*.py") if r"\p{L}" in path.read_text(encoding="utf-8")}
    # minbpe exports its two patterns by name, and so must what stands in for it.
    assert found == {package / "compat" / "minbpe.py"}
    spelled = (minbpe.GPT2_SPLIT_PATTERN, minbpe.GPT4_SPLIT_PATTERN)
    assert [_core.scan_family(_core.pre_tokenizer(regex)) for regex in spelled] == ["gpt2", "cl100k"]


@pytest.mark.parametrize("command", ["prepare", "train"])
def test_commands_refuse_a_name_that_is_no_family(command, tmp_path, capsys):
    source = tmp_path / "texts.jsonl"
    source.write_text('{"text": "a b c"}\n')
    (tmp_path / "x.tiktoken").write_text("YQ== 0\n")
    options = {
        "prepare": ["--tokenizer", str(tmp_path / "x.tiktoken"), "--output", str(tmp_path / "out")],
        "train": ["--vocab-size", "300", "--output", str(tmp_path / "out")],
    }[command]
    with pytest.raises(SystemExit) as ended:
        main([command, str(source), *options, "--pattern", "gtp2"])
    assert ended.value.code == 2
    assert '"gtp2" is not a family; did you mean "gpt2"?' in capsys.readouterr().err
