"""Threads of this process, and the cores of the rank that prepares."""

import pytest

from tokenmill.base.machine import GB, Cores, Machine, Memory
from tokenmill.pipeline.prepare import use_all_cores
from tokenmill.settings.resolve import resolve


def resolved(flags=None, quota=None, environ=None):
    usable = 2 if quota is None else 1
    cores = Cores(usable, 64, 16, quota, 8, "divided among 8 ranks (LOCAL_WORLD_SIZE)")
    machine = Machine(cores, Memory(60 * GB, "free"))
    return resolve(flags=flags, environ=environ or {}, machine=machine)


@pytest.mark.parametrize(("quota", "threads"), [(None, 16), (4.0, 4), (1.5, 2), (100.0, 16)])
def test_all_cores_within_the_limits(quota, threads):
    given = resolved(quota=quota)
    mine = use_all_cores(given)
    assert mine.config.execution.threads == threads
    assert given.config.execution.threads in {1, 2}


@pytest.mark.parametrize(
    "flags",
    [{"threads": 3}, {"unit_range": "0/4"}, {"executor": "ray"}],
    ids=["set by the user", "a share each", "on a cluster"],
)
def test_where_the_settings_stay_as_they_are(flags):
    given = resolved(flags)
    assert use_all_cores(given) is given


def test_a_process_alone_has_them_already():
    cores = Cores(16, 16, 16, None, 1, "16 on this host")
    given = resolve(environ={}, machine=Machine(cores, Memory(60 * GB, "free")))
    assert use_all_cores(given) is given
