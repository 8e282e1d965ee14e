"""Compare the loss of a small decoder with `shuffle=True` and `shuffle="local"` on the same rows.

    python benchmarks/shuffle_loss.py --corpora DIR [--tokens 5e6] [--csv FILE]

The corpora are prepared one after another in shards of 1 MB, so that neighbouring shards hold one language. A window
of 8 shards is therefore a hard case: it mixes one or two languages at a time. Needs torch.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import tokenmill

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from decoder import Decoder, DecoderConfig

LENGTH, BATCH, PARTS = 128, 32, 20


def prepare(corpora, place):
    """Return a dataset of 8 MB of each corpus."""
    paths = []
    for source in sorted(corpora.glob("*.jsonl.zst")):
        text = subprocess.run(["zstd", "-dc", source], capture_output=True, check=True).stdout[: 8 << 20]
        paths.append(place / source.name.removesuffix(".zst"))
        paths[-1].write_bytes(text[: text.rindex(b"\n") + 1])
    tokenmill.train(paths, 4000, special_tokens=["<|endoftext|>"], progress=False).save(place / "tokenizer")
    return tokenmill.prepare(
        paths, place / "tokenizer", place / "data", unit_bytes="1MB", verbose_level="ERROR"
    )


def train(dataset, shuffle, tokens):
    """Return the mean loss of each of `PARTS` parts of a run."""
    torch.manual_seed(1)
    config = DecoderConfig(dataset.vocab_size, 96, 2, 4, LENGTH)
    model = Decoder(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    columns = ("labels", "position_ids", "document_ids")
    rows = dataset.rows(LENGTH + 1, columns=columns, per_shard=True)
    steps, losses, found = int(tokens // (LENGTH * BATCH)), [], []
    feed = rows.batches(BATCH, shuffle=shuffle, seed=1, drop_last=True)
    while len(losses) < steps:
        for batch in feed:
            ids, labels, positions, documents = (
                torch.from_numpy(batch[key].astype("int64")) for key in ("input_ids", *columns)
            )
            loss = model(ids[:, :-1], labels[:, 1:], positions[:, :-1], documents[:, :-1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
    for part in range(PARTS):
        mine = losses[part * steps // PARTS : (part + 1) * steps // PARTS]
        found.append(sum(mine) / len(mine))
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--tokens", type=float, default=5e6)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        dataset = prepare(options.corpora, Path(place))
        print(f"{len(dataset.manifest.shards)} shards, {dataset.num_tokens:,} tokens")
        curves = [train(dataset, shuffle, options.tokens) for shuffle in (True, "local")]
    lines = ["million_tokens,shuffle_true,shuffle_local"]
    for part, (whole, local) in enumerate(zip(*curves, strict=True), 1):
        lines.append(f"{options.tokens * part / PARTS / 1e6:.2f},{whole:.4f},{local:.4f}")
    print("\n".join(lines))
    if options.csv:
        options.csv.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
