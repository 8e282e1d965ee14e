"""Whose fault a failure is: a unit that kills its workers is told from workers that are killed at random."""

import random
from types import SimpleNamespace

import pytest

from tokenmill.jobs.executors.budgets import CLUSTER_ATTEMPTS, LONGEST_PAUSE, Attempt, Budgets


def attempts(count):
    return [Attempt(SimpleNamespace(name=str(number), source="x")) for number in range(count)]


def play(units, dies):
    """Run every unit until it ends or is set aside; `dies(unit number, try)` says how an attempt ends."""
    budgets, queue = Budgets(), attempts(units)
    while queue or (queue := budgets.judge(0.0)):
        attempt = queue.pop(0)
        if dies(int(attempt.task.name), attempt.tries):
            attempt.deaths += 1
            if budgets.failed(attempt, 0.0):
                queue.append(attempt)
        else:
            budgets.ended(attempt)
    return budgets


def test_a_poisoned_unit_gets_three_attempts():
    budgets = play(50, lambda unit, _: unit == 7)
    assert [(attempt.task.name, attempt.tries) for attempt in budgets.aside] == [("7", 3)]


def test_every_unit_may_be_poisoned():
    budgets = play(20, lambda *_: True)
    assert [attempt.tries for attempt in budgets.aside] == [3] * 20


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.4])
def test_workers_that_die_at_random_cost_no_unit_and_poison_is_still_found(rate):
    for seed in range(30):
        rng = random.Random(seed)
        budgets = play(200, lambda unit, _, rng=rng: unit == 3 or rng.random() < rate)
        assert [attempt.task.name for attempt in budgets.aside] == ["3"], seed
        assert 3 <= budgets.aside[0].tries <= CLUSTER_ATTEMPTS


def test_one_unit_struck_three_times_among_others_that_were_struck_too():
    """Twelve kills of 40 units, three of them in one: chance explains it, so the unit is tried again."""
    struck = {5: 3, **dict.fromkeys(range(10, 19), 1)}
    assert not play(40, lambda unit, tries: tries < struck.get(unit, 0)).aside


def test_errors_are_the_units_own_and_lost_nodes_are_not():
    budgets = Budgets()
    failing, unlucky = attempts(2)
    for tried in range(1, 4):
        failing.errors += 1
        assert budgets.failed(failing, 0.0) is (tried < 3)
    for tried in range(1, CLUSTER_ATTEMPTS + 1):
        unlucky.faults += 1
        assert budgets.failed(unlucky, 0.0) is (tried < CLUSTER_ATTEMPTS)
    assert [attempt.tries for attempt in budgets.aside] == [3, CLUSTER_ATTEMPTS]


def test_pauses_double_up_to_a_limit():
    attempt = attempts(1)[0]
    pauses = []
    for _ in range(10):
        attempt.faults += 1
        attempt.rest(100.0)
        pauses.append(attempt.not_before - 100.0)
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == LONGEST_PAUSE
