"""A tiny model that is continued with an extended vocabulary: grafted rows start better than others."""

import json
import random
import subprocess

import pytest

import tokenmill
from torch_environment import ROOT, WHY_NOT, environ, torch_python

pytestmark = pytest.mark.torch
WORDS = [
    "방앗간이",
    "돌아간다",
    "물레방아",
    "곡식을",
    "빻는다",
    "강물이",
    "흐른다",
    "돌로",
    "빵을",
    "굽는다",
    "아침에",
    "저녁에",
]


def test_rows_from_old_ids_start_at_a_lower_loss_per_byte(tmp_path):
    python = torch_python() or pytest.skip(WHY_NOT)
    rng = random.Random(2)
    # Sentences with an order that a model can learn: each word has two that may follow it.
    texts = []
    for _ in range(300):
        at, words = rng.randrange(len(WORDS)), []
        for _ in range(40):
            words.append(WORDS[at])
            at = (2 * at + rng.randrange(2)) % len(WORDS)
        texts.append(" ".join(words))
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenmill.train_from_iterator(texts, 330, special_tokens=["<|eos|>"], output=tmp_path / "base")
    tokenmill.extend(tmp_path / "base", iter(texts), add=12, output=tmp_path / "longer")
    script = ROOT / "tests" / "integration" / "graft_process.py"
    command = [python, str(script), str(tmp_path), str(ROOT / "examples")]
    done = subprocess.run(command, env=environ(), capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    losses = json.loads(done.stdout.splitlines()[-1])
    assert losses["subword-mean"] < min(losses["mean"], losses["random"])
