"""How the cost of a prepare job grows from 1 to 1,000 nodes: a seeded simulation of units, failures and limits.

    python benchmarks/scale_sim.py --tokens 15e12 --json sim.json
    python benchmarks/scale_sim.py --check          # predictions for real runs, and their times

`scale_model.py` has the model and says what is measured and what assumed; the measured figures are those of
`scale_measured.json`, which `scale_measure.py` writes from real runs.
"""

import argparse
import json
import statistics
import sys
from dataclasses import asdict
from pathlib import Path

from scale_model import MEASURED, World, from_measured, load_measured, predict, simulate

PLACES = ("1 threads", "2 threads", "1 nodes", "2 nodes")


def report(world, sizes, seed):
    rows = [simulate(world, nodes, seed) for nodes in sizes]
    print(
        f"{world.tokens:.3g} tokens, {world.text_bytes / 1e12:.1f} TB of text, {world.units:,} units, "
        f"{world.core_bytes_per_second / 1e6:.0f} MB/s a core\n"
    )
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


def check(measured, seed):
    """The large corpus in every place: predicted from the small one, and measured."""
    large = measured["rounds"]["large"]
    megabytes = large[0][PLACES[0]]["bytes"] / 1e6
    print(
        f"\n{megabytes:.0f} MB\n\n| where | predicted s | measured s | measured / predicted |\n|---|---|---|---|"
    )
    rows = []
    for place in PLACES:
        predicted = predict(measured, place, seed)
        took = statistics.median(runs[place]["wall"] for runs in large)
        rows.append({"place": place, "predicted": predicted, "measured": took, "ratio": took / predicted})
        print(f"| {place} | {predicted:.2f} | {took:.2f} | {took / predicted:.2f} |")
    return rows


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=float, default=World.tokens)
    parser.add_argument("--measured", type=Path, default=MEASURED, help="what scale_measure.py wrote")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4, 10, 30, 100, 300, 1000])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="hold the model against real runs")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)
    measured = load_measured(args.measured)
    world = from_measured(measured, tokens=args.tokens)
    result = {"world": asdict(world), "rows": report(world, args.nodes, args.seed)}
    if args.check:
        result["check"] = check(measured, args.seed)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
