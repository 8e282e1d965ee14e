"""The main commands as people see them: 80 and 120 columns, colour or none, Korean and C, a screen or a pipe."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from terminal import Terminal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here; .ci/run installs it")

# Every pair of width, colour and language is in one of these.
KINDS = [(80, True, "ko"), (120, False, "ko"), (80, False, "C"), (120, True, "C")]
COLOUR = re.compile(r"\x1b\[(?:3[0-8]|9[0-7])")
LANGUAGES = {"ko": {"LANG": "ko_KR.UTF-8"}, "C": {"LANG": "C", "LC_ALL": "C"}}


@pytest.fixture
def place():
    """A folder with a short name: a path that is wider than the terminal has to be cut."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tm") as folder:
        place = Path(folder) / "w"
        place.mkdir()
        records = (
            {"text": f"방앗간이 돈다 the mill turns 磨坊在转 {number} " * 60} for number in range(4000)
        )
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        (place / "말뭉치.jsonl").write_text(text, encoding="utf-8")
        yield place


@pytest.fixture
def environment(place):
    bin_ = place.parent / "bin"
    bin_.mkdir()
    script = bin_ / "tokenmill"
    script.write_text(f"#!{sys.executable}\nfrom tokenmill.__main__ import main\nmain()\n", encoding="utf-8")
    script.chmod(0o755)
    return {"PATH": f"{bin_}:/usr/bin:/bin", "HOME": str(place), "HF_HUB_OFFLINE": "1"}


COMMANDS = {
    "quickstart": ("tokenmill quickstart --output q", 0, "600 documents"),
    "train": ("tokenmill train 말뭉치.jsonl --vocab-size 400 --output tok", 0, "saved           tok"),
    "prepare": (
        "tokenmill prepare 말뭉치.jsonl --tokenizer tok --output data",
        0,
        "4,000 documents",
    ),
    "log": (
        "tokenmill prepare 말뭉치.jsonl --tokenizer tok --output b -v",
        0,
        "4,000 documents",
    ),
    "dataset": ("tokenmill inspect data", 0, "4,000 written"),
    "tokenizer": ("tokenmill inspect tok", 0, "<|endoftext|>"),
    "plan": ("tokenmill plan 말뭉치.jsonl --tokenizer tok", 0, "tokens"),
    "doctor": ("tokenmill doctor", None, "cpu features"),
    "help": ("tokenmill --help", 0, "quickstart"),
    "groups": ("tokenmill prepare --help", 0, "--help-all"),
    "every option": ("tokenmill prepare --help-all", 0, "--stall-timeout"),
    "measured": ("tokenmill tokenizer card tok --on ko=말뭉치.jsonl", 0, "bytes"),
    "no such file": ("tokenmill prepare 말뭉.jsonl --tokenizer tok --output c", 2, "tokenmill:"),
    "typo": ("tokenmill prepare 말뭉치.jsonl --tokenizer tokk --output c", 2, "did you mean tok?"),
}


@pytest.mark.parametrize(("columns", "colour", "language"), KINDS)
def test_no_word_is_cut_and_nothing_breaks(tmp_path, place, environment, columns, colour, language):
    environment |= LANGUAGES[language] | ({} if colour else {"NO_COLOR": "1"})
    terminal = Terminal(tmp_path, columns, environment)
    seen = {name: terminal.run(command, place) for name, (command, _, _) in COMMANDS.items()}
    for name, (_, code, words) in COMMANDS.items():
        session = seen[name]
        text = "\n".join(session.lines)
        assert code is None or session.code == code, (name, text)
        assert "Traceback" not in text, text
        assert words in " ".join(text.split()) or words in text, (name, text)
        wide = [line for line in session.lines if cell_len(line) > columns]
        assert not wide, (name, wide)
        screens = [session.coloured, *session.screens]
        assert colour or not any(map(COLOUR.search, screens)), name
    assert not colour or COLOUR.search("".join([seen["doctor"].coloured, *seen["prepare"].screens]))
    assert not any("INFO" in line for line in seen["prepare"].lines)
    bar = next(line for line in seen["prepare"].lines if "Tokenizing" in line)
    assert "%" in bar
    assert "left" in bar
    assert any(sign in bar for sign in "━-"), bar


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_pipe_gets_whole_lines_without_colour(tmp_path, place, environment, language):
    terminal = Terminal(tmp_path, 80, environment | LANGUAGES[language])
    assert terminal.run(COMMANDS["train"][0], place).code == 0
    for name in ("prepare", "dataset", "doctor", "groups", "typo"):
        session = terminal.run(f"{COMMANDS[name][0]} > piped 2>&1 < /dev/null", place)
        text = (place / "piped").read_bytes().decode()
        assert COMMANDS[name][1] in (None, session.code), text
        assert "Traceback" not in text
        assert not set(text) & {"\x1b", "\r"}, (name, text)
        assert COMMANDS[name][2].split()[0] in text, (name, text)
    assert len(text.splitlines()) == 1  # an error is one line in a log
