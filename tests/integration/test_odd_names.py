"""Files with any name, on a terminal with any encoding: the correct bytes or an error message, never a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tokenmill
from small_tokenizers import write_bpe

LOCALES = {
    "utf-8": {},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "Korean": {"LC_ALL": "ko_KR.eucKR", "PYTHONUTF8": "0", "PYTHONIOENCODING": "euc_kr"},
}
NAMES = [
    b"bad\xff.jsonl",
    "한국어 말뭉치.jsonl".encode(),
    b"new\nline.jsonl",
    b"glob[1]*.jsonl",
    "e\u0301 '\"$.jsonl".encode(),
]


def run(locale, *arguments):
    command = [sys.executable, "-m", "tokenmill", *arguments]
    done = subprocess.run(command, env={**os.environ, **LOCALES[locale]}, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr + done.stdout, done.stderr.decode("utf-8", "backslashreplace")
    return done


@pytest.mark.parametrize("locale", LOCALES)
def test_a_name_is_a_name(tmp_path, locale):
    folder = os.fsencode(tmp_path) + "/말뭉치".encode()
    Path(os.fsdecode(folder)).mkdir()
    paths = [folder + b"/" + name for name in NAMES]
    for path in paths:
        Path(os.fsdecode(path)).write_bytes('{"text": "한국어 words"}\n'.encode() * 5 + b"{broken\n")
    write_bpe(tmp_path / "tok")
    output, tokenizer = tmp_path / "출력", ["--tokenizer", str(tmp_path / "tok")]
    done = run(locale, "prepare", folder, *tokenizer, "--output", output, "--on-error", "skip", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["documents"] == 5 * len(NAMES)
    if locale != "Korean":  # whose own characters those bytes may be
        found = [os.fsencode(entry.path) for entry in tokenmill.open(output).manifest.inputs]
        assert sorted(found) == sorted(paths)
    assert run(locale, "dataset", "verify", output).returncode == 0
    assert run(locale, "inspect", output).returncode == 0
    failed = run(locale, "prepare", *paths[:3], *tokenizer, "--output", tmp_path / "failed")
    assert failed.returncode == 1
    assert b"broken JSON" in failed.stderr
    assert run(locale, "prepare", paths[0] + b"x", *tokenizer, "--output", output).returncode == 2


def test_a_training_on_such_a_file(tmp_path):
    path = os.fsencode(tmp_path) + b"/bad\xff.txt"
    Path(os.fsdecode(path)).write_bytes("한국어 words".encode() * 50)
    done = run("C", "train", path, "--vocab-size", "260", "-o", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "training.json").read_bytes())["job"]["inputs"][0][
        "url"
    ] == os.fsdecode(path)
