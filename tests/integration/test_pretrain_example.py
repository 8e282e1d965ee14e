"""The example, end to end: raw text, a tokenizer, two ranks, a falling loss; then more data and the very next row."""

import json
from pathlib import Path

import pytest

import tokenmill
from tokenmill.tokenizer.recipe import AddedToken, Model, Recipe
from torch_environment import ROOT, WHY_NOT, run_ranks, torch_python

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


def save_tokenizer(path):
    """One id per byte: enough for a loss to fall, and made in no time."""
    from tokenmill.tokenizer.tiktoken import split_by

    tokens = tuple(bytes([byte]) for byte in range(256))
    added = (AddedToken("<|endoftext|>", 256),)
    recipe = Recipe("bytes", "made", Model("bytes", tokens, merges=()), added, pre_tokenizer=split_by("gpt2"))
    tokenmill.Tokenizer(recipe).save(path, "hf")


def pretrain(python, home, mode, inputs, steps, size):
    arguments = [
        ROOT / "examples" / "pretrain.py",
        *("--mode", mode, "--dataset", *(home / name for name in inputs)),
        *("--tokenizer_path", home / "tokenizer", "--output_dir", home / "out"),
        *("--model_config", ROOT / "examples" / "model_config_tiny.json", "--num_proc", 1, "--packing"),
        *("--batch_size", BATCH, "--max_steps", steps),
    ]
    for code, _, err in run_ranks(python, arguments, size, timeout=240):
        assert code == 0, err[-3000:]
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
    save_tokenizer(home / "tokenizer")
    log = pretrain(python, home, "pretrain", ["first.jsonl"], STEPS, 2)
    losses = [line["loss"] for line in log]
    assert len(losses) == STEPS
    assert sum(losses[-5:]) / 5 < sum(losses[:5]) / 5 - 0.5
    due = first_ids(home, STEPS, MORE)
    shards = len(tokenmill.open(home / "out" / "data").manifest.shards)

    log = pretrain(python, home, "continue", ["first.jsonl", "later.jsonl"], MORE, 2)
    continued = log[STEPS:]
    assert [line["step"] for line in continued] == list(range(STEPS, STEPS + MORE))
    assert continued[0]["position"] == STEPS * BATCH * 2
    assert [line["first_ids"] for line in continued] == due
    assert continued[0]["loss"] < losses[0] - 0.5
    assert len(tokenmill.open(home / "out" / "data").manifest.shards) > shards

    # A third run with one rank instead of two still starts at the next row.
    log = pretrain(python, home, "continue", ["first.jsonl", "later.jsonl"], 2, 1)
    assert log[-2]["position"] == (STEPS + MORE) * BATCH * 2
