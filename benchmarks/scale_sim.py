"""How the cost of a prepare job grows from 1 to 1,000 nodes: a seeded simulation of units, failures and limits.

    python benchmarks/scale_sim.py --tokens 15e12 --json sim.json
    python benchmarks/scale_sim.py --check 2.1 1.15     # measured seconds on 1 and 2 nodes against the model

The model: a job is a list of units. Each node runs one unit per core; a unit's time is its bytes over the measured
speed of a core, times a log-normal factor (jitter), and now and then a straggler's factor. Nodes die at a
rate of one per `mtbf` hours and come back; what they were doing is done again. All cores of a node share its
network; all nodes share the store's request rate; the driver hands out units one by one. The manifest is
written when every receipt has been read. Most constants below are assumptions; the few measured ones say so.
"""

import argparse
import heapq
import json
import math
import random
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class World:
    """Only lines that say "measured" are; everything else is an assumption to be replaced by your own figure."""

    tokens: float = 15e12
    bytes_per_token: float = 4.0  # assumed: English with a large vocabulary
    text_per_input_byte: float = 3.5  # assumed: zstd-compressed JSON Lines
    id_bytes: int = 4  # a vocabulary above 65,536
    unit_bytes: int = 512 << 20  # decoded text a unit
    core_bytes_per_second: float = 170e6  # measured: 987 MB of plain JSON Lines in 5.82 s, one thread
    cores: int = 32  # assumed: a common machine
    jitter: float = 0.08  # assumed: sigma of the log-normal factor over units of one size
    straggler_rate: float = 0.002  # assumed
    straggler_factor: float = 4.0  # assumed
    unit_failure_rate: float = 0.0005  # assumed: a transient error that a retry mends
    mtbf_hours: float = 2000.0  # assumed: one node in 2,000 hours
    recovery_seconds: float = 300.0  # assumed: until a lost node is replaced
    node_bandwidth: float = 10e9 / 8  # assumed: 10 Gbit/s
    store_requests_per_second: float = 3500.0  # assumed: writes to one prefix of an object store
    part_bytes: int = 64 << 20  # a ranged read or a part of an upload
    driver_seconds: float = 0.002  # measured elsewhere, not here: one task through Ray's scheduler
    receipt_read_seconds: float = 0.02  # assumed: one small get, 64 at a time
    node_price: float = 1.6  # assumed: dollars an hour
    request_price: float = 5e-6  # assumed: dollars a write; reads cost a tenth

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
        reads = self.units * math.ceil(input_bytes / self.part_bytes) + self.units
        writes = self.units * (math.ceil(output_bytes / self.part_bytes) + 2) + 1
        return reads, writes


class Outages:
    """When each node is away; drawn as time goes on, so that a node's outages do not depend on the others."""

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
    """Run the job once; returns what `report` prints. Time is in seconds, events are units that end."""
    rng = random.Random(seed)
    outages = Outages(world, nodes, seed)
    slots = nodes * world.cores
    base = max(world.unit_bytes / world.core_bytes_per_second, _network_seconds(world))
    pace = max(world.driver_seconds, _store_seconds(world))  # units cannot start faster than this
    free = [(0.0, slot) for slot in range(min(slots, world.units))]
    waiting, next_start, ended, busy, redone = world.units, 0.0, 0.0, 0.0, 0
    while waiting:
        now, slot = heapq.heappop(free)
        death, back = outages.next(slot // world.cores, max(now, next_start))
        start = max(now, next_start)
        if start >= death:
            heapq.heappush(free, (back, slot))
            continue
        next_start = start + pace
        end = start + base * _factor(world, rng)
        busy += min(end, death) - start
        if end > death or rng.random() < world.unit_failure_rate:
            redone += 1
        else:
            waiting -= 1
            ended = max(ended, end)
        heapq.heappush(free, (back if end > death else end, slot))
    commit = world.units * world.receipt_read_seconds / 64
    wall = ended + commit
    ideal = world.units * base / slots
    reads, writes = world.requests()
    requests = (writes + redone) * world.request_price + reads * world.request_price / 10
    dollars = nodes * wall / 3600 * world.node_price + requests
    return {
        "nodes": nodes,
        "hours": wall / 3600,
        "dollars": dollars,
        "dollars_per_trillion": dollars / (world.tokens / 1e12),
        "efficiency": ideal / wall,
        "utilisation": busy / (wall * slots),
        "node_losses": outages.before(ended),
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


def report(world, sizes, seed):
    rows = [simulate(world, nodes, seed) for nodes in sizes]
    print(f"{world.tokens:.3g} tokens, {world.text_bytes / 1e12:.1f} TB of text, {world.units:,} units\n")
    print(
        "| nodes | hours | $ | $ per trillion | efficiency | node losses | units redone | tail s | commit s | writes | bottleneck |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['nodes']:,} | {row['hours']:,.1f} | {row['dollars']:,.0f} | {row['dollars_per_trillion']:,.1f} "
            f"| {row['efficiency']:.1%} | {row['node_losses']} | {row['units_redone']:,} | {row['tail_seconds']:,.0f} "
            f"| {row['commit_seconds']:,.0f} | {row['writes']:,} | {row['bottleneck']} |"
        )
    return rows


def check(world, measured, seed):
    """Predict 2 nodes from 1: the model with one core a node, calibrated on the first measurement."""
    one, two = measured
    quiet = {"mtbf_hours": 1e9, "straggler_rate": 0.0, "unit_failure_rate": 0.0}
    near = {"store_requests_per_second": 1e9, "node_bandwidth": 1e12}
    local = replace(world, cores=1, unit_bytes=4 << 20, tokens=50e6, **quiet, **near)
    local = replace(local, core_bytes_per_second=local.text_bytes / one)
    predicted = simulate(local, 2, seed)["hours"] * 3600
    print(f"two nodes: measured {two:.2f} s, simulated {predicted:.2f} s, ratio {two / predicted:.2f}")
    return {"measured": two, "simulated": predicted}


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=float, default=World.tokens)
    parser.add_argument(
        "--core-speed",
        type=float,
        default=World.core_bytes_per_second,
        help="bytes a second of one core, as measured",
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4, 10, 30, 100, 300, 1000])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--check", type=float, nargs=2, metavar=("ONE", "TWO"), help="measured seconds on 1 and 2 nodes"
    )
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)
    world = World(tokens=args.tokens, core_bytes_per_second=args.core_speed)
    result = {"world": asdict(world), "rows": report(world, args.nodes, args.seed)}
    if args.check:
        result["check"] = check(world, args.check, args.seed)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
