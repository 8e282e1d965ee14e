"""A save that fails or is killed leaves the tokenizer that was there."""

import os
import signal
import subprocess
import sys

import pytest

import tokenmill

CHILD = """
import resource, signal, sys
import tokenmill
new = tokenmill.Tokenizer.load(sys.argv[1], pattern="gpt2")
if sys.argv[4] == "full disk":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
else:
    signal.signal(signal.SIGXFSZ, lambda *_: signal.raise_signal(signal.SIGKILL))
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    new.save(sys.argv[2], sys.argv[3])
except tokenmill.errors.TokenizerError as error:
    print(error)
"""
NAMES = {"hf": "old", "vocab-merges": "old", "tiktoken": "old.tiktoken", "minbpe": "old.model"}


@pytest.mark.parametrize("fault", ["full disk", "kill"])
@pytest.mark.parametrize("kind", NAMES)
def test_a_failed_save_changes_nothing(kind, fault, tmp_path):
    def train(text, name):
        (tmp_path / name).mkdir()
        formats = [kind, "hf"]
        return tokenmill.train_from_iterator(
            [text] * 9, 264, output=tmp_path / name, save_as=formats, progress=False
        )

    train("low lower lowest", "first")
    train("wide wider widest", "second")
    source = {
        "hf": "",
        "vocab-merges": "vocab.json",
        "tiktoken": "tokenizer.tiktoken",
        "minbpe": "tokenizer.model",
    }
    target = tmp_path / NAMES[kind]
    options = {"pattern": "gpt2"} if kind == "tiktoken" else {}
    tokenmill.Tokenizer.load(tmp_path / "first" / source[kind], **options).save(target, kind)
    files = {path: path.read_bytes() for path in ([target] if target.is_file() else target.iterdir())}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, tmp_path / "second" / source[kind], target, kind, fault],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("cannot be written" in done.stdout) == (fault == "full disk"), done.stderr
    assert (done.returncode == -signal.SIGKILL) == (fault == "kill"), done.stderr
    assert {path: path.read_bytes() for path in files} == files
    assert tokenmill.Tokenizer.load(target, **options).encode("low lower")
    if fault == "full disk":
        assert not list(tmp_path.rglob(".tmp-*"))
