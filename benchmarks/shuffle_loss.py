"""Compare the loss of a small decoder with `shuffle=True` and `shuffle="local"` on the same rows.

    python benchmarks/shuffle_loss.py --corpora DIR [--tokens 12e6] [--csv FILE] [--chart FILE]

Models with the same start take steps in turns, one for each order, so that a run that is stopped early compares
the same number of tokens. The corpora are prepared in shards of one language and 128 kB, and a window of 8 shards
holds 8 % of them. Held-out text of all languages gives the validation loss. Needs torch.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import tokenmill

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from decoder import Decoder, DecoderConfig

from charts import strip, svg, text

LENGTH, BATCH, EVERY = 128, 32, 50
torch.set_num_threads(1)
torch.set_flush_denormal(True)
COLUMNS = ("labels", "position_ids", "document_ids")
# Rows mixed at a time: all, those of 8 shards of 96, and those of 16 (2 in each lane of 8 ranks).
ORDERS = {
    "true": {"shuffle": True},
    "local": {"shuffle": "local"},
    "local_8_lanes": {"shuffle": "local", "lanes": 8, "window": 2},
}


def prepare(corpora, place):
    """Return a dataset of 3 MB of each corpus, and batches of 128 kB more of each."""
    paths = {"train": [], "held_out": []}
    for source in sorted(corpora.glob("*.jsonl.zst")):
        text = subprocess.run(["zstd", "-dc", source], capture_output=True, check=True).stdout
        cut = text.rindex(b"\n", 0, 3_000_000) + 1
        parts = {"train": text[:cut], "held_out": text[cut : text.rindex(b"\n", 0, cut + 128_000) + 1]}
        for name, part in parts.items():
            paths[name].append(place / f"{name}-{source.name.removesuffix('.zst')}")
            paths[name][-1].write_bytes(part)
    tokenmill.train(paths["train"], 2000, special_tokens=["<|endoftext|>"], progress=False).save(
        place / "tokenizer"
    )
    made = {
        name: tokenmill.prepare(
            paths[name], place / "tokenizer", place / name, unit_bytes="128kB", verbose_level="ERROR"
        )
        for name in paths
    }
    held_out = made["held_out"].rows(LENGTH + 1, columns=COLUMNS).batches(BATCH, shuffle=True, seed=1)
    return made["train"], [batch for batch, _ in zip(held_out, range(16), strict=False)]


def repeat(dataset, order):
    """Yield batches without end."""
    rows = dataset.rows(LENGTH + 1, columns=COLUMNS, per_shard=True)
    feed = rows.batches(BATCH, seed=1, drop_last=True, **order)
    while True:
        yield from feed


def compute_loss(model, batch):
    ids, labels, positions, documents = (
        torch.from_numpy(batch[key].astype("int64")) for key in ("input_ids", *COLUMNS)
    )
    return model(ids[:, :-1], labels[:, 1:], positions[:, :-1], documents[:, :-1])


def compare(dataset, held_out, steps):
    """Yield the million tokens seen, and the training and validation loss of each order."""
    runs = []
    for order in ORDERS.values():
        torch.manual_seed(1)
        model = Decoder(DecoderConfig(dataset.vocab_size, 64, 2, 4, LENGTH))
        runs.append((model, torch.optim.AdamW(model.parameters(), lr=2e-3), repeat(dataset, order), []))
    print(f"{sum(each.numel() for each in runs[0][0].parameters()):,} parameters")
    for step in range(1, steps + 1):
        for model, optimizer, batches, losses in runs:
            # Warm up for 100 steps, then fall to a tenth along a cosine.
            scale = min(step / 100, 0.55 + 0.45 * np.cos(np.pi * step / steps))
            optimizer.param_groups[0]["lr"] = 2e-3 * scale
            loss = compute_loss(model, next(batches))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if step % EVERY == 0:
            with torch.no_grad():
                held = [np.mean([compute_loss(run[0], batch).item() for batch in held_out]) for run in runs]
            yield (
                step * LENGTH * BATCH / 1e6,
                *(float(np.mean(run[3][-EVERY:])) for run in runs),
                *map(float, held),
            )


def draw(lines, path):
    """Draw the validation loss of each order."""
    width, height, left, top, most = 560, 240, 40, 20, lines[-1][0]
    low, high = min(map(min, (line[-len(ORDERS) :] for line in lines))) - 0.05, 5.0

    def place(tokens, loss):
        return left + (width - left - 20) * tokens / most, top + (height - 2 * top - 20) * (high - loss) / (
            high - low
        )

    parts = [text(*place(0, loss), f"{loss:.1f}", ' dx="-30"') for loss in np.arange(high, low, -0.5)]
    parts += [text(*place(tokens, low), f"{tokens} M", ' dy="16"') for tokens in range(0, int(most) + 1, 2)]
    for nth, (name, colour) in enumerate(zip(ORDERS, ("#777777", "#b3401e", "#0b5394"), strict=True)):
        points = " ".join(
            "{:.1f},{:.1f}".format(*place(line[0], line[1 + len(ORDERS) + nth])) for line in lines[4:]
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        parts.append(strip(width - 170, 26 + 18 * nth, 20, 3, colour))
        parts.append(text(width - 142, 31 + 18 * nth, name.replace("_", " ").replace("true", "shuffle=True")))
    path.write_text(svg(width, height, "Validation loss by the tokens trained on", parts))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--tokens", type=float, default=12e6)
    parser.add_argument("--csv", type=Path, default=Path("shuffle_loss.csv"))
    parser.add_argument("--chart", type=Path)
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as place, options.csv.open("w") as file:
        dataset, held_out = prepare(options.corpora, Path(place))
        print(f"{len(dataset.manifest.shards)} shards, {dataset.num_tokens:,} tokens")
        names = [f"{part}_{name}" for part in ("train", "held_out") for name in ORDERS]
        print("million_tokens", *names, sep=",", file=file)
        for line in compare(dataset, held_out, int(options.tokens // (LENGTH * BATCH))):
            lines.append(line)
            print(f"{line[0]:.2f}", *(f"{loss:.4f}" for loss in line[1:]), sep=",", file=file, flush=True)
    if options.chart:
        draw(lines, options.chart)


if __name__ == "__main__":
    main()
