"""SIGKILL at any moment and at any call: the same command again gives the bytes of an uninterrupted run."""

import random

import pytest
from harness import KILL_AFTER, KILL_BEFORE, TORN, Fault, spread
from jobs import JOBS

CALLS = ("write", "fsync", "rename", "openat", "mkdir")
FEW = ("prepare-tokenmill", "prepare-filters", "resume", "train", "convert-arrow", "commit")


def at_calls(made, most):
    """Before, after, or in the middle of the Nth call of each kind."""
    ways = {"write": (KILL_BEFORE, KILL_AFTER, TORN)}
    for kind in CALLS:
        for nth in spread(made.calls[kind], most):
            choices = ways.get(kind, (KILL_BEFORE, KILL_AFTER))
            fault = Fault(kind, nth, choices[nth % len(choices)])
            yield fault.label, {"fault": fault}


def at_moments(made, most):
    chosen = random.Random(made.job.name)
    for _ in range(most):
        moment = chosen.uniform(0.0, 1.2 * made.seconds)
        yield f"after {moment:.4f} s of {made.seconds:.3f} s", {"kill_after": moment}


@pytest.mark.parametrize("name", FEW)
def test_a_few_kills(campaign, tally, name):
    made = campaign.prepared(JOBS[name])
    hurts = dict(at_calls(made, 1)) | dict(at_moments(made, 2))
    assert not campaign.hurt(made.job, tally("kills, a few"), hurts)


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", JOBS)
def test_kills(campaign, tally, name):
    made = campaign.prepared(JOBS[name])
    broken = campaign.hurt(made.job, tally("kills at the Nth call"), dict(at_calls(made, 8)))
    broken += campaign.hurt(made.job, tally("kills at a moment"), dict(at_moments(made, 16)))
    assert not broken
