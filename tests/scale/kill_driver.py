"""A driver with a cluster of its own, on which it kills workers, a node, or itself while its job runs.

`python kill_driver.py '{"job": {…}, "kills": 12, "lose_node_after": 6, "die_after": null}'`; tells what it did as JSON.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # stay on loopback
import psutil
from ray.cluster_utils import Cluster

import tokenmill

NODE = {
    "node_ip_address": "127.0.0.1",
    "num_cpus": 1,
    "object_store_memory": 100 << 20,
    "memory": 2 << 30,
}


def slowly(_text):
    """Keeps every document, and makes a unit long enough to be struck in its middle."""
    time.sleep(0.002)
    return True


def workers():
    """Worker processes below this one that are at a unit, by their titles."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if any("ray::_run_task" in part for part in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


class Killer:
    """Kill while the job runs: after every few receipts a worker, and after so many workers a node."""

    def __init__(self, cluster, second, orders):
        self.cluster, self.second, self.orders = cluster, second, orders
        self.receipts = Path(orders["job"]["output"]) / "receipts"
        self.killed, self.lost = [], False

    def run(self):
        for number in range(self.orders["kills"]):
            if number == self.orders["lose_node_after"]:
                self.lose_node()
            self.wait((number + 1) * self.orders["every"])
            self.kill_one()
        if not self.lost and self.orders["lose_node_after"] is not None:
            self.wait(self.orders["lose_node_after"])
            self.lose_node()
        if self.orders["die_after"] is not None:
            self.wait(self.orders["die_after"])
            self.tell()
            self.cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
            os.kill(os.getpid(), signal.SIGKILL)

    def wait(self, receipts):
        while len(list(self.receipts.glob("*.json"))) < receipts:
            time.sleep(0.005)

    def kill_one(self):
        while True:
            for process in workers():
                if process.pid not in self.killed:
                    os.kill(process.pid, signal.SIGKILL)
                    self.killed.append(process.pid)
                    return
            time.sleep(0.005)

    def lose_node(self):
        self.cluster.remove_node(self.second, allow_graceful=False)
        self.lost = True

    def tell(self, **more):
        print(json.dumps({"killed": len(self.killed), "lost": self.lost, **more}), flush=True)


def main():
    orders = {"kills": 0, "every": 1, "lose_node_after": None, "die_after": None} | json.loads(sys.argv[1])
    cluster = Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
    second = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    killer = Killer(cluster, second, orders)
    threading.Thread(target=killer.run, daemon=True).start()
    dataset = tokenmill.prepare(**orders["job"], ray_address=cluster.address, keep=slowly)
    killer.tell(content_hash=dataset.content_hash)
    import ray

    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
