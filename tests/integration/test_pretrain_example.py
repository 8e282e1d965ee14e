"""The example, end to end: raw text, a tokenizer, two ranks, a falling loss; then more data and the very next row."""

import json
import subprocess
from pathlib import Path

import pytest

import tokenmill
from torch_environment import ROOT, WHY_NOT, environ, torch_python

SAMPLE = Path(tokenmill.__file__).parent / "data" / "sample.jsonl"
CONTEXT, BATCH, STEPS, MORE = 64, 8, 40, 10
pytestmark = pytest.mark.torch


@pytest.fixture
def python():
    return torch_python() or pytest.skip(WHY_NOT)


@pytest.fixture
def home(tmp_path):
    lines = SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "first.jsonl").write_text("".join(lines[:300]), encoding="utf-8")
    (tmp_path / "later.jsonl").write_text("".join(lines[300:]), encoding="utf-8")
    return tmp_path


def run(python, home, script, inputs, steps, ranks):
    """One of the two shell scripts, with a stand-in for torchrun; -> everything logged so far."""
    settings = {
        "DATASET": " ".join(str(home / name) for name in inputs),
        "TOKENIZER": str(home / "tokenizer"),
        "OUTPUT": str(home / "out"),
        "VOCAB_SIZE": "400",
        "LAUNCH": f"{python} {ROOT / 'tests' / 'torch_environment.py'} {ranks}",
        "TOKENMILL": f"{python} -m tokenmill",
    }
    command = [ROOT / "examples" / script, "--batch_size", str(BATCH), "--max_steps", str(steps)]
    done = subprocess.run(
        command, env={**environ(), **settings}, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in (home / "out" / "train.jsonl").read_text().splitlines()]


def first_ids(home, skip, count, rank=0, world_size=2):
    """What an uninterrupted run over the first data would read."""
    rows = tokenmill.open(home / "out" / "data").rows(CONTEXT + 1, 1)
    feed = rows.batches(BATCH, shuffle=True, rank=rank, world_size=world_size, drop_last=True)
    batches = [
        batch["input_ids"][:, :4].tolist() for _, batch in zip(range(skip + count), feed, strict=False)
    ]
    return batches[skip:]


def test_from_raw_text_to_a_falling_loss_and_on(python, home):
    log = run(python, home, "pretrain.sh", ["first.jsonl"], STEPS, 2)
    losses = [line["loss"] for line in log]
    assert len(losses) == STEPS
    assert sum(losses[-5:]) / 5 < sum(losses[:5]) / 5 - 0.5
    due = first_ids(home, STEPS, MORE)
    shards = len(tokenmill.open(home / "out" / "data").manifest.shards)

    log = run(python, home, "pretrain_cont.sh", ["first.jsonl", "later.jsonl"], MORE, 2)
    continued = log[STEPS:]
    assert [line["step"] for line in continued] == list(range(STEPS, STEPS + MORE))
    assert continued[0]["rows_read"] == (STEPS + 1) * BATCH * 2
    assert [line["first_ids"] for line in continued] == due
    assert continued[0]["loss"] < losses[0] - 0.5
    assert len(tokenmill.open(home / "out" / "data").manifest.shards) > shards

    # A third run with one rank instead of two still starts at the next row.
    log = run(python, home, "pretrain_cont.sh", ["first.jsonl", "later.jsonl"], 2, 1)
    assert log[-2]["rows_read"] == (STEPS + MORE) * BATCH * 2 + BATCH
