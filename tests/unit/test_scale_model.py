"""The simulator of scale: seeded, sane at its ends, and true to the real runs that were measured."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def model():
    spec = importlib.util.spec_from_file_location("scale_model", BENCHMARKS / "scale_model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["scale_model"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["scale_model"]


@pytest.fixture(scope="module")
def world(model):
    """A hundredth of the large job, as measured here."""
    return model.from_measured(model.load_measured(), tokens=15e10)


def test_a_seed_decides_everything(model, world):
    assert model.simulate(world, 4, seed=3) == model.simulate(world, 4, seed=3)
    assert model.simulate(world, 4, seed=3) != model.simulate(world, 4, seed=4)


def test_without_chance_the_units_take_their_time(model, world):
    calm = replace(world, jitter=0.0, straggler_rate=0.0, unit_failure_rate=0.0, mtbf_hours=1e9)
    calm = replace(calm, node_bandwidth=1e15, store_requests_per_second=1e9, driver_seconds=1e-9)
    told = model.simulate(calm, 1)
    rounds = -(-calm.units // calm.cores)
    expected = rounds * calm.unit_bytes / calm.core_bytes_per_second
    assert told["hours"] * 3600 - told["commit_seconds"] - calm.startup_seconds == pytest.approx(expected)
    assert (told["node_losses"], told["units_redone"]) == (0, 0)


def test_failures_cost_time_and_lose_no_unit(model, world):
    failing = replace(world, mtbf_hours=0.05, recovery_seconds=60.0, unit_failure_rate=0.05)
    told, calm = model.simulate(failing, 2), model.simulate(world, 2)
    assert told["units_redone"] > calm["units_redone"]
    assert told["node_losses"] > 0
    assert told["hours"] > calm["hours"]


def test_more_nodes_are_faster_until_something_else_is_the_limit(model, world):
    hours = {nodes: model.simulate(world, nodes)["hours"] for nodes in (1, 2, 4, 1000)}
    assert hours[1] > hours[2] > hours[4] > hours[1000]
    assert model.bottleneck(world, 1) in {"cores", "network"}
    assert model.bottleneck(world, 1000) == "too few units: make them smaller"


@pytest.mark.parametrize("place", ["1 threads", "2 threads", "1 nodes", "2 nodes"])
def test_the_model_foretold_the_measured_runs(model, place):
    """A calculation over recorded figures, not a timing: the runs are those of scale_measured.json."""
    measured = model.load_measured()
    took = sorted(runs[place]["wall"] for runs in measured["rounds"]["large"])
    assert model.foretell(measured, place) == pytest.approx(took[len(took) // 2], rel=0.15)
