"""Recipes of docs/trainers.md with the trainers themselves, row for row.

Grain installs in moments, into a folder of its own. The others need torch 2, of which the index has no build without
gigabytes of CUDA: they run where TOKENMILL_TRAINERS_PYTHON names an interpreter that has them.
"""

import importlib.util
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from test_trainer_formats import corpus, run  # noqa: F401 - a fixture
from train_with import LENGTH

import tokenmill
from chat_tokenizers import write_chat
from environment_lock import only_one
from tokenmill.cli import main
from torch_environment import HOME, environ, free_port

pytestmark = pytest.mark.timeout(600)
PLACE = HOME.with_name(".venv-grain")
NAMED = "TOKENMILL_TRAINERS_PYTHON"
MODULES = {
    "lightning": "lightning",
    "transformers": "accelerate",
    "trl": "trl",
    "trl_chat": "trl",
    "olmo": "olmo_core",
    "llamafactory": "llamafactory",
    "axolotl": "axolotl",
}


@cache
def why_no_grain():
    """Why Grain cannot be had here, or None once it is installed."""
    if importlib.util.find_spec("grain"):
        return None
    with only_one(PLACE):
        return None if (PLACE / ".ready").exists() else _install_grain()


def _install_grain():
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(PLACE), "grain"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"Grain cannot be installed: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
    (PLACE / ".ready").touch()
    return None


def interpreter(kind):
    """(the Python to run, what to put on its path); skips if there is no such Python."""
    if kind == "grain":
        if reason := why_no_grain():
            pytest.skip(reason)
        return sys.executable, [str(PLACE)]
    python = os.environ.get(NAMED)
    if python is None:
        pytest.skip(f"{kind} needs torch 2: set {NAMED} to a Python that has both")
    look = f"import importlib.util as u, sys; sys.exit(not u.find_spec({MODULES[kind]!r}))"
    if subprocess.run([python, "-c", look], check=False).returncode:
        pytest.skip(f"{python} has no {MODULES[kind]}")
    return python, []


def seen_by(kind, folder):
    """The rows as the trainer saw them, in no stated order."""
    return sorted(call(kind, folder))


def call(kind, folder):
    """What the function of that name in train_with.py returns, in the trainer's interpreter."""
    python, more = interpreter(kind)
    variables = environ() | {"HF_HUB_OFFLINE": "1", "HOME": str(folder), "CUDA_VISIBLE_DEVICES": ""}
    variables["DISABLE_VERSION_CHECK"] = "1"  # of LLaMA-Factory, which allows no trl that axolotl allows
    variables["PYTHONPATH"] = os.pathsep.join([*more, variables["PYTHONPATH"]])
    command = [python, str(Path(__file__).with_name("train_with.py")), kind, str(folder)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(folder, length, **options):
    rows = tokenmill.open(folder).rows(length, **options)
    return [rows[number].tolist() for number in range(len(rows))]


def test_grain_reads_every_row(corpus, tmp_path):  # noqa: F811
    run(corpus, tmp_path)
    expected = sorted(rows_of(tmp_path, LENGTH + 1, overlap=1))
    assert seen_by("grain", tmp_path) == expected


@pytest.mark.parametrize("kind", ["lightning", "trl"])
def test_rows_of_torch_trainers(kind, corpus, tmp_path):  # noqa: F811
    run(corpus, tmp_path)
    assert seen_by(kind, tmp_path) == sorted(rows_of(tmp_path, LENGTH))


def test_olmo_core_reads_its_files(corpus, tmp_path):  # noqa: F811
    manifest = run(corpus, tmp_path, format="olmo").manifest
    expected = []
    for shard in manifest.shards:
        ids = np.fromfile(tmp_path / shard.file("tokens").path, np.uint16)
        expected += ids[: len(ids) // LENGTH * LENGTH].reshape(-1, LENGTH).tolist()
    assert seen_by("olmo", tmp_path) == sorted(expected)


def test_llama_factory_takes_rows_as_tokenized_path(corpus, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    one = {"unit_bytes": "1GB"}  # rows that are written end with their shard, rows that are read continue
    columns = ["labels", "attention_mask"]
    run(corpus, out, format="arrow", context_length=LENGTH, columns=columns, tail="drop", **one)
    run(corpus, tmp_path / "plain", **one)
    assert seen_by("llamafactory", out) == sorted(rows_of(tmp_path / "plain", LENGTH))


def test_axolotl_takes_documents_as_they_are(corpus, tmp_path):  # noqa: F811
    out = tmp_path / "out"
    run(corpus, out, format="arrow", columns=["labels", "attention_mask"])
    run(corpus, tmp_path / "plain")
    plain = tokenmill.open(tmp_path / "plain")
    documents = [plain[number].tolist() for number in range(len(plain))]
    assert seen_by("axolotl", out) == sorted(documents)


def test_trl_trains_on_prepared_conversations_as_on_its_own(tmp_path):
    """The same ids, labels and losses; and in packed rows, position ids that restart at each conversation."""
    interpreter("trl_chat")
    templates = Path(__file__).parents[1] / "parity" / "chat_templates"
    tokenizer = write_chat(tmp_path / "tokenizer", (templates / "qwen3.jinja").read_text("utf-8"))
    records = []
    for number in range(40):
        turns = [("user", f"Question {number} 안녕?"), ("assistant", "The answer " * (1 + number % 4))]
        turns = turns * (1 + number % 2)
        records.append({"messages": [{"role": role, "content": text} for role, text in turns]})
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    # As `--mask-style trl` chooses it where TRL is installed.
    quiet = {"report": False, "parity_check": False, "verbose_level": "ERROR", "show_progress": False}
    options = {"chat_template": str(templates / "qwen3_training.jinja"), "context_length": 192, **quiet}
    source = {"inputs": str(tmp_path / "a.jsonl"), "tokenizer": str(tokenizer)}
    tokenmill.prepare(**source, output=tmp_path / "padded", packing="pad", **options)
    packed = tokenmill.prepare(**source, output=tmp_path / "sft", **{**options, "context_length": 400})
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text("utf-8")
    recipe = page.partition("from trl import")[2].partition("```")[0]
    (tmp_path / "recipe.py").write_text(f"from trl import{recipe}")
    found = call("trl_chat", tmp_path)
    own = found["trl"]["rows"]
    # Our rows are padded to their length, with labels that train on nothing.
    ours = [row[: len(same)] for row, same in zip(found["ours"]["rows"], own, strict=True)]
    assert ours == own
    rest = [row[len(same) :] for row, same in zip(found["ours"]["rows"], own, strict=True)]
    assert {label for row in rest for _, label in row} <= {-100}
    assert len(found["trl"]["losses"]) == 20
    assert found["ours"]["losses"] == pytest.approx(found["trl"]["losses"], abs=1e-5)
    assert set(found["ours"]["warnings"]) <= set(found["trl"]["warnings"])
    lengths = [packed.rows().spans(row)[:, 2].tolist() for row in (0, 1)]
    assert max(map(len, lengths)) > 1
    expected = [at for row in lengths for length in (*row, 400 - sum(row)) for at in range(length)]
    assert found["position_ids"] == [expected]


def train(python, folder, output, kind, *kill_at):
    """Run two ranks with torchrun; return what each step of rank 0 and 1 was, the last time it was run."""
    launch = [python, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port()]
    command = [*launch, Path(__file__).with_name("trainer_process.py"), folder, output, kind, *kill_at]
    variables = environ() | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(list(map(str, command)), env=variables, capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(kill_at), done.stderr[-3000:]
    return [
        {step["step"]: step for step in map(json.loads, (output / f"{rank}.jsonl").read_text().splitlines())}
        for rank in range(2)
    ]


@pytest.mark.parametrize(("kind", "kill_at"), [("rows", 8), ("rows", 20), ("mixture", 8)])
def test_a_killed_trainer_of_transformers_resumes_bit_for_bit(kind, kill_at, corpus, tmp_path, capsys):  # noqa: F811
    python, _ = interpreter("transformers")
    run(corpus, tmp_path / "data")
    whole = train(python, tmp_path / "data", tmp_path / "whole", kind)
    killed = train(python, tmp_path / "data", tmp_path / "killed", kind, kill_at)
    assert max(killed[0]) < kill_at < max(whole[0])
    assert train(python, tmp_path / "data", tmp_path / "killed", kind) == whole
    if kind == "rows":
        # Steps of `trace` count from 0, those of the trainer from 1: this is the first one after the checkpoint.
        state = tmp_path / "killed" / "checkpoint-6" / "trainer_state.json"
        given = [tmp_path / "data", "--state", state, "-w", 2, "-b", 6, "--drop-last", "--json"]
        main(["dataset", "trace", *map(str, given)])
        traced = json.loads(capsys.readouterr().out)["rows"]
        expected = rows_of(tmp_path / "data", 62)
        for rank in range(2):
            found = [expected[each["row"]] for each in traced if each["rank"] == rank]
            assert whole[rank][7]["rows"] == found
