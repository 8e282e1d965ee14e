"""Automatic values follow the limits of container, affinity and launcher, not the host."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tokenmill.base import machine as cgroup
from tokenmill.base.machine import (
    GB,
    find_local_world_size,
    measure,
    measure_cores,
    measure_memory,
    read_limits,
)
from tokenmill.settings.resolve import resolve


@pytest.fixture
def group(tmp_path):
    """Lay out a cgroup hierarchy: `group("0::/a/b", {"a/cpu.max": "50000 100000"})`."""

    def lay_out(membership, files):
        root = tmp_path / "cgroup"
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
        member = tmp_path / "membership"
        member.write_text(membership + "\n", encoding="utf-8")
        return root, member

    return lay_out


def test_v2_the_tightest_level_counts(group):
    found = read_limits(
        *group(
            "0::/slice/job",
            {
                "slice/cpu.max": "150000 100000",
                "slice/job/cpu.max": "max 100000",
                "slice/memory.max": "max",
                "slice/job/memory.max": "8000000000",
                "slice/job/memory.current": "3000000000",
                "slice/job/memory.stat": "anon 1\ninactive_file 1000000000",
            },
        )
    )
    assert found == cgroup.Limits(cpus=1.5, memory=8_000_000_000, memory_used=2_000_000_000)


def test_a_container_that_mounts_only_its_own_group(group):
    found = read_limits(*group("0::/kubepods/pod/abc", {"cpu.max": "200000 100000"}))
    assert found.cpus == 2.0


def test_no_limits(group):
    assert read_limits(*group("0::/", {"cpu.max": "max 100000", "memory.max": "max"})) == cgroup.Limits()
    assert read_limits(*group("nonsense", {"cpu.max": "what 0"})) == cgroup.Limits()


@pytest.mark.parametrize(("quota", "usable"), [(0.5, 1), (1.0, 1), (1.2, 1), (1.5, 2), (2.0, 2)])
def test_a_quota_rounds_to_whole_threads(monkeypatch, quota, usable):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert measure_cores(cgroup.Limits(cpus=quota), {}).usable == usable


def test_cores_are_divided_among_the_ranks_of_the_host(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 32)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)), raising=False)
    found = measure_cores(cgroup.Limits(), {"LOCAL_WORLD_SIZE": "8"})
    assert (found.usable, found.ranks) == (4, 8)
    assert "divided among 8 ranks (LOCAL_WORLD_SIZE)" in found.reason


@pytest.mark.parametrize(
    ("environ", "size"),
    [
        ({}, 1),
        ({"LOCAL_WORLD_SIZE": "0"}, 1),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 4),
        ({"SLURM_PROCID": "0", "SLURM_STEP_TASKS_PER_NODE": "4(x2),3"}, 4),
        ({"SLURM_STEP_TASKS_PER_NODE": "4"}, 1),
    ],
)
def test_launchers(environ, size):
    assert find_local_world_size(environ)[0] == size


def test_memory_within_the_limit():
    found = measure_memory(cgroup.Limits(memory=1_000_000_000, memory_used=400_000_000))
    assert found.available == 600_000_000
    assert "cgroup limit" in found.reason


def test_settings_follow_a_container(group):
    root, member = group(
        "0::/", {"cpu.max": "100000 100000", "memory.max": str(GB), "memory.current": str(GB // 5)}
    )
    machine = measure({}, root, member)
    resolved = resolve(environ={}, machine=machine)
    assert resolved.config.execution.threads == 1
    assert resolved.config.execution.memory_budget == GB // 10
    assert "cgroup limit" in str(resolved.origins["execution.memory_budget"])


@pytest.mark.skipif(shutil.which("taskset") is None, reason="needs taskset")
def test_settings_follow_a_reduced_affinity():
    code = (
        "import json; from tokenmill.settings.resolve import resolve; r = resolve(environ={});"
        "print(json.dumps([r.config.execution.threads, r.machine.slow_processes, r.machine.cores.host]))"
    )
    one = str(min(os.sched_getaffinity(0)))
    done = subprocess.run(
        ["taskset", "-c", one, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert json.loads(done.stdout) == [1, 1, os.cpu_count()]
