"""A Ray cluster of one-CPU nodes on loopback for the benchmarks, up and at rest before anything is timed."""

import os
import time
from contextlib import contextmanager

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # stay on loopback
NODE = {
    "node_ip_address": "127.0.0.1",
    "num_cpus": 1,
    "object_store_memory": 100 << 20,
    "memory": 3 << 30,
}


@contextmanager
def cluster_of(nodes):
    """The address of a cluster whose own processes have come to rest; stopped at the end."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
    for _ in range(nodes - 1):
        cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    wait_for_rest()
    try:
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()


def wait_for_rest(limit=0.1, seconds=60):
    """Return when all processes below this one together use less than `limit` CPUs."""
    until = time.monotonic() + seconds
    used = cpu_seconds_below()
    while time.monotonic() < until:
        time.sleep(1)
        before, used = used, cpu_seconds_below()
        if used - before < limit:
            return


def cpu_seconds_below():
    import psutil

    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total
