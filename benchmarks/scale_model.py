"""The model behind `scale_sim.py`: a job as a list of units on nodes that die, a store and a driver with limits.

Each node runs one unit per core. A unit's time is its bytes over the measured speed of a core *with every core of
its machine at work*, times a log-normal factor (jitter), and now and then a straggler's factor. Nodes die at a
rate of one per `mtbf_hours` and come back; what they were doing is done again. All cores of a node share its
network; all nodes share the store's request rate; the driver hands out units one by one. The manifest is written
when every receipt has been read.
"""

import heapq
import json
import math
import random
import statistics
from dataclasses import dataclass, replace
from pathlib import Path

MEASURED = Path(__file__).parent / "scale_measured.json"


@dataclass(frozen=True)
class World:
    """Everything the model knows. `from_measured` replaces what has been measured; the rest is assumed."""

    # Measured by scale_measure.py
    core_bytes_per_second: float = 120e6
    startup_seconds: float = 2.0  # from the call to the first unit, and from the last unit to the end
    jitter: float = 0.08  # sigma of the log-normal factor over units of one size
    straggler_rate: float = 0.002
    unit_failure_rate: float = 0.002
    driver_seconds: float = 0.002  # of the driver for one task
    worker_lost_seconds: float = 1.0  # until a killed worker is replaced
    reads_per_unit: float = 3.0  # apart from the parts of the input
    writes_per_unit: float = 3.0  # apart from the parts of the output
    # Assumed: no run here can tell
    tokens: float = 15e12
    bytes_per_token: float = 4.0  # English with a large vocabulary
    text_per_input_byte: float = 3.5  # zstd-compressed JSON Lines
    id_bytes: int = 4  # a vocabulary above 65,536
    unit_bytes: int = 512 << 20  # decoded text a unit
    cores: int = 32
    straggler_factor: float = 4.0
    mtbf_hours: float = 2000.0  # of one node
    recovery_seconds: float = 300.0  # until a lost node is replaced
    node_bandwidth: float = 10e9 / 8
    store_requests_per_second: float = 3500.0  # writes to one prefix of S3, as its documentation says
    read_part: int = 8 << 20  # a ranged read, as the sources make them
    write_part: int = 16 << 20  # a part of an upload, as the store makes them
    receipt_read_seconds: float = 0.02  # one small get, 64 at a time
    node_price: float = 1.6  # dollars an hour
    request_price: float = 5e-6  # dollars a write; reads cost a tenth

    @property
    def text_bytes(self):
        return self.tokens * self.bytes_per_token

    @property
    def units(self):
        return max(1, math.ceil(self.text_bytes / self.unit_bytes))

    def requests(self):
        """(reads, writes) that the whole job makes when nothing fails."""
        input_bytes = self.unit_bytes / self.text_per_input_byte
        output_bytes = self.unit_bytes / self.bytes_per_token * self.id_bytes
        reads = self.units * (math.ceil(input_bytes / self.read_part) + self.reads_per_unit)
        writes = self.units * (math.ceil(output_bytes / self.write_part) + self.writes_per_unit) + 1
        return round(reads), round(writes)


def load_measured(path=MEASURED):
    return json.loads(Path(path).read_text())


def from_measured(measured, **more):
    """A world with the figures of real runs: every core of this machine at work, on the small corpus."""
    spread = measured["spread"]
    runs = [runs["2 threads"] for runs in measured["rounds"]["small"]]
    # With nothing seen in n units, half of one in n + 1 is the usual estimate of a rate.
    rate = {name: (spread[name] + 0.5) / (spread["units"] + 1) for name in ("stragglers", "failures")}
    return World(
        core_bytes_per_second=statistics.median(run["bytes"] / sum(run["units"]) for run in runs),
        startup_seconds=startup(measured, "2 nodes"),
        jitter=spread["jitter"],
        straggler_rate=rate["stragglers"],
        unit_failure_rate=rate["failures"],
        driver_seconds=measured["cluster"]["task_seconds"],
        worker_lost_seconds=measured["cluster"]["worker_lost_seconds"],
        reads_per_unit=measured["store"]["reads_per_unit"],
        writes_per_unit=measured["store"]["writes_per_unit"],
        **more,
    )


def startup(measured, place):
    """What a run takes apart from its units, in one setup."""
    rounds = measured["rounds"]["small"]
    return statistics.median(runs[place]["wall"] - runs[place]["working"] for runs in rounds)


def predict(measured, place, seed=0):
    """Seconds that the large corpus will take in one place, from the small one: `predict(m, "2 nodes")`.

    The unit times are those of *threads* with as many workers, whatever the place: a node's are not looked at.
    """
    workers = int(place.split()[0])
    small = [runs[f"{workers} threads"] for runs in measured["rounds"]["small"]]
    large = measured["rounds"]["large"][0][place]
    local = replace(
        from_measured(measured),
        cores=1,
        bytes_per_token=1.0,
        tokens=large["bytes"],
        unit_bytes=math.ceil(large["bytes"] / len(large["units"])),
        core_bytes_per_second=statistics.median(run["bytes"] / sum(run["units"]) for run in small),
        startup_seconds=startup(measured, place),
        mtbf_hours=1e9,
        straggler_rate=0.0,
        unit_failure_rate=0.0,
        store_requests_per_second=1e9,
        node_bandwidth=1e12,
        receipt_read_seconds=0.0,
    )
    return simulate(local, workers, seed)["hours"] * 3600


class Outages:
    """When each node is away; drawn as time passes, so that a node's outages do not depend on the others."""

    def __init__(self, world, nodes, seed):
        self.world = world
        self.random = [random.Random(f"{seed}/{node}") for node in range(nodes)]
        self.windows = [[self._draw(node, 0.0)] for node in range(nodes)]

    def _draw(self, node, after):
        death = after + self.random[node].expovariate(1 / (self.world.mtbf_hours * 3600))
        return death, death + self.world.recovery_seconds

    def next(self, node, time):
        """The outage that is going on at `time`, or the next one."""
        windows = self.windows[node]
        while windows[-1][1] <= time:
            windows.append(self._draw(node, windows[-1][1]))
        return next(window for window in windows if window[1] > time)

    def before(self, time):
        return sum(death < time for windows in self.windows for death, _ in windows)


def simulate(world, nodes, seed=0):
    """Run the job once. Time is in seconds, events are units that end."""
    rng = random.Random(seed)
    outages = Outages(world, nodes, seed)
    slots = nodes * world.cores
    base = max(world.unit_bytes / world.core_bytes_per_second, _network_seconds(world))
    pace = max(world.driver_seconds, _store_seconds(world))  # units cannot start faster than this
    free = [(0.0, slot) for slot in range(min(slots, world.units))]
    waiting, next_start, ended, busy, redone = world.units, 0.0, 0.0, 0.0, 0
    while waiting:
        now, slot = heapq.heappop(free)
        start = max(now, next_start)
        death, back = outages.next(slot // world.cores, start)
        if start >= death:
            heapq.heappush(free, (back, slot))
            continue
        next_start = start + pace
        end = start + base * _factor(world, rng)
        busy += min(end, death) - start
        failed = rng.random() < world.unit_failure_rate
        if end > death or failed:
            redone += 1
        else:
            waiting -= 1
            ended = max(ended, end)
        # A unit that fails takes its worker with it: the harder of the two cases.
        again = back if end > death else end + failed * world.worker_lost_seconds
        heapq.heappush(free, (again, slot))
    commit = world.units * world.receipt_read_seconds / 64
    wall = world.startup_seconds + ended + commit
    ideal = world.units * base / slots
    return _figures(world, nodes, wall, ended, commit, ideal, busy, redone, outages.before(ended))


def _figures(world, nodes, wall, ended, commit, ideal, busy, redone, losses):
    reads, writes = world.requests()
    requests = (writes + redone) * world.request_price + reads * world.request_price / 10
    dollars = nodes * wall / 3600 * world.node_price + requests
    return {
        "nodes": nodes,
        "hours": wall / 3600,
        "dollars": dollars,
        "dollars_per_trillion": dollars / (world.tokens / 1e12),
        "efficiency": ideal / wall,
        "utilisation": busy / (wall * nodes * world.cores),
        "node_losses": losses,
        "units_redone": redone,
        "tail_seconds": max(0.0, ended - ideal),
        "commit_seconds": commit,
        "reads": reads,
        "writes": writes,
        "bottleneck": bottleneck(world, nodes),
    }


def _factor(world, rng):
    straggler = world.straggler_factor if rng.random() < world.straggler_rate else 1.0
    return rng.lognormvariate(0.0, world.jitter) * straggler


def _network_seconds(world):
    """A unit's share of its node's network, with every core at work."""
    moved = (
        world.unit_bytes / world.text_per_input_byte
        + world.unit_bytes / world.bytes_per_token * world.id_bytes
    )
    return moved / (world.node_bandwidth / world.cores)


def _store_seconds(world):
    _, writes = world.requests()
    return writes / world.units / world.store_requests_per_second


def bottleneck(world, nodes):
    """What bounds units per second at this size."""
    rates = {
        "cores": nodes * world.cores * world.core_bytes_per_second / world.unit_bytes,
        "network": nodes * world.cores / _network_seconds(world),
        "store requests": 1 / _store_seconds(world),
        "driver": 1 / world.driver_seconds,
    }
    if nodes * world.cores > world.units:
        return "too few units: make them smaller"
    return min(rates, key=rates.get)
