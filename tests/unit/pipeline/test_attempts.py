"""How often a unit is tried on a cluster: its own failures count, lost nodes hardly do."""

from types import SimpleNamespace

from tokenmill.pipeline.ray import LONGEST_PAUSE, MOST_LOSSES, Attempt


def attempt():
    return Attempt(SimpleNamespace(name="00007", source="x"))


def test_three_tries_more_for_a_unit_that_fails():
    failing, tries = attempt(), []
    for _ in range(4):
        failing.failures += 1
        tries.append(failing.schedule_retry(0.0))
    assert tries == [True, True, True, False]


def test_a_lost_node_is_not_the_units_fault():
    unlucky = attempt()
    for lost in range(1, MOST_LOSSES + 1):
        unlucky.losses += 1
        assert unlucky.schedule_retry(0.0) is (lost < MOST_LOSSES)
    struck_too = attempt()
    struck_too.losses, struck_too.failures = 10, 3
    assert struck_too.schedule_retry(0.0)


def test_pauses_double_up_to_a_limit():
    unlucky, pauses = attempt(), []
    for _ in range(10):
        unlucky.losses += 1
        unlucky.schedule_retry(100.0)
        pauses.append(unlucky.not_before - 100.0)
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == LONGEST_PAUSE
