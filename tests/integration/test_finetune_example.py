"""The instruction-tuning example on its bundled sample: the loss on learned tokens falls."""

import json
import subprocess

import pytest

from torch_environment import ROOT, WHY_NOT, environ, torch_python

pytestmark = pytest.mark.torch


def test_the_loss_on_learned_tokens_falls(tmp_path):
    python = torch_python() or pytest.skip(WHY_NOT)
    command = [str(python), str(ROOT / "examples" / "finetune.py"), "--mode", "sft", "--max_steps", "40"]
    command += ["--output_dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environ(), check=False)
    assert done.returncode == 0, done.stderr
    losses = [json.loads(line)["loss"] for line in (tmp_path / "loss.jsonl").read_text().splitlines()]
    assert len(losses) == 40
    assert sum(losses[-5:]) < sum(losses[:5]) / 2
    account = json.loads((tmp_path / "data" / "manifest.json").read_text())["account"]
    assert 0 < account["learned"]["written"] < account["tokens"]["written"]
