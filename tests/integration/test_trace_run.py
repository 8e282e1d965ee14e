"""Real training loops write down what they read; a trace, which saw none of it, predicts every row of every step."""

import json
import subprocess
from pathlib import Path

import pytest

import tokenmill
from small_datasets import numbered
from tokenmill.datasets.trace import History, list_sources
from torch_environment import WHY_NOT, environ, run_ranks, torch_python

pytestmark = pytest.mark.torch
PROCESS = Path(__file__).parent / "record_process.py"
# (ranks, rows of a batch, workers, steps): each stretch goes on from the state of the one before.
QUICK = [(2, 3, 2, 5), (3, 2, 0, 7), (8, 1, 0, 9), (1, 4, 2, 6)]
LONG = [(1, 2, 0, 9), (8, 2, 2, 12), (3, 5, 2, 11), (2, 1, 0, 30), (3, 1, 2, 40), (1, 8, 2, 25)]


def record(root, legs, spec, *, launch):
    """What every rank got, as `(step, rank, place, ids)`, and the state after each stretch."""
    specs = []
    for nth, (world_size, batch_size, workers, steps) in enumerate(legs):
        more = {"batch_size": batch_size, "workers": workers, "steps": steps, "world_size": world_size}
        state = str(root / f"leg{nth - 1}.state.json") if nth else None
        specs.append(root / f"leg{nth}.json")
        specs[-1].write_text(json.dumps(spec | more | {"state": state, "out": str(root / f"leg{nth}")}))
    for leg, name in zip(legs, specs, strict=True):
        if launch:
            ended = run_ranks(torch_python(), [PROCESS, name], leg[0])
            assert all(code == 0 for code, _, _ in ended), ended
    if not launch:
        subprocess.run([torch_python(), PROCESS, *specs], env=environ(), timeout=120, check=True)
    return _gather(root, legs)


def _gather(root, legs):
    seen, states, step = [], [], 0
    for nth, (world_size, _, _, steps) in enumerate(legs):
        for rank in range(world_size):
            for done, batch in enumerate(json.loads((root / f"leg{nth}.{rank}.json").read_text())):
                seen += [(step + done, rank, place, ids) for place, ids in enumerate(batch)]
        states.append(json.loads((root / f"leg{nth}.state.json").read_text()))
        step += steps
    return sorted(seen), states


def check(source, legs, seen, states, seed=None):
    history = History(
        source,
        [leg[1] for leg in legs],
        seed=seed,
        world_size=[leg[0] for leg in legs],
        states=states[:-1],
    )
    steps = sum(leg[3] for leg in legs)
    predicted = [row for step in range(steps) for row in history.trace(step, epochs=99)]
    ids = dict(enumerate(list_sources(source)))
    wrong = [
        (row, found)
        for row, found in zip(predicted, seen, strict=True)
        if (row.step, row.rank, row.place, ids[row.source][row.row].tolist()) != found
    ]
    assert not wrong, wrong[:3]
    assert len(states[-1]) == len(states[0])
    # The other way: what was seen of a document is found, and nothing else.
    for number, rows in ids.items():
        for document in range(0, len(rows.dataset), max(1, len(rows.dataset) // 7)):
            tokens = set(rows.dataset[document].tolist())
            expected = [entry[:3] for entry in seen if tokens & set(entry[3])]
            found = history.find([document], source=number, until=steps)
            assert [(row.step, row.rank, row.place) for row in found] == expected


MIXTURE = """
sources: {web: WEB, code: CODE, notes: NOTES}
context_length: 5
seed: 4
rows_per_step: 6
steps: 11
stages:
  - {from: 0, weights: {web: 3, notes: 1}}
  - {from: 3, weights: {web: 1, code: 2}}
  - {from: 8, weights: {code: 1}}
"""


def run_and_check(tmp_path, legs, *, launch=False):
    """A dataset and a mixture with stages, each read to its end and beyond, with other ranks in every stretch."""
    if torch_python() is None:
        pytest.skip(WHY_NOT)
    text, sources = MIXTURE, {}
    for nth, (name, tokens) in enumerate((("web", 400), ("code", 90), ("notes", 50))):
        root = tmp_path / name
        sources[name] = tokenmill.open(numbered(root, tokens, first=1000 * nth)).rows(5)
        text = text.replace(name.upper(), str(root))
    (tmp_path / "mixture.yaml").write_text(text)
    spec = {"dataset": str(tmp_path / "web"), "context_length": 5, "seed": 11}
    (tmp_path / "rows").mkdir()
    check(sources["web"], legs, *record(tmp_path / "rows", legs, spec, launch=launch), seed=11)
    (tmp_path / "mixed").mkdir()
    spec = {"mixture": str(tmp_path / "mixture.yaml")}
    mixture = tokenmill.Mixture.load(tmp_path / "mixture.yaml")
    check(mixture, legs, *record(tmp_path / "mixed", legs, spec, launch=launch))


def test_every_row_of_every_step(tmp_path):
    run_and_check(tmp_path, QUICK)


@pytest.mark.slow
def test_every_row_of_every_step_of_longer_runs(tmp_path):
    run_and_check(tmp_path, LONG, launch=True)
