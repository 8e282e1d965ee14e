"""From raw text to a falling loss, in one process or many.

    torchrun --nproc_per_node=2 examples/pretrain.py --mode pretrain --dataset corpus.jsonl \\
        --tokenizer_path tokenizer --model_config examples/model_config_tiny.json --output_dir out --packing
    torchrun --nproc_per_node=2 examples/pretrain.py --mode continue --dataset corpus.jsonl new.jsonl \\
        --tokenizer_path tokenizer --output_dir out --packing

Every rank calls `tokenmill.prepare`; one does the work and the others open the result. `continue` takes the
checkpoint in --output_dir, prepares only what is new, and continues with the very next row. With --stream,
nothing is prepared: each rank makes the shards that it reads, ahead of the training loop.
"""

import argparse
import json
import os
import time
from contextlib import nullcontext
from pathlib import Path

import torch
from decoder import Decoder, DecoderConfig
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import tokenmill

COLUMNS = ("labels", "position_ids", "document_ids")


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=["pretrain", "continue"], default="pretrain")
    parser.add_argument("--dataset", nargs="+", required=True, help="files, globs or directories of raw text")
    parser.add_argument("--tokenizer_path", required=True)
    parser.add_argument("--model_config", help="a JSON file; `continue` takes it from the checkpoint")
    parser.add_argument("--output_dir", required=True, type=Path)
    parser.add_argument(
        "--num_proc", type=int, help="only for tokenizers written in Python; others use threads"
    )
    parser.add_argument(
        "--packing", action="store_true", help="rows across documents; otherwise one padded row each"
    )
    parser.add_argument("--stream", action="store_true", help="make shards while training; implies --packing")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--batch_size", type=int, default=8, help="rows per rank and step")
    parser.add_argument("--max_steps", type=int, default=60, help="steps of this run")
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--num_workers", type=int, default=0, help="processes that read ahead, per rank")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def prepare_rows(options, context_length):
    """The rows to train on; one rank prepares them, the others wait for it."""
    if options.stream:
        output = str(options.output_dir / "data")
        stream = tokenmill.stream(options.dataset, options.tokenizer_path, output, eos=True)
        return stream.rows(context_length + 1, columns=COLUMNS)
    rows = {"packing": "stream"}
    if not options.packing:
        rows = {"packing": "pad", "context_length": context_length + 1}
    dataset = tokenmill.prepare(
        inputs=options.dataset,
        tokenizer=options.tokenizer_path,
        output=str(options.output_dir / "data"),
        eos=True,
        **rows,
        num_proc=options.num_proc,
    )
    if not options.packing:
        return dataset.rows(columns=COLUMNS)
    # One token more than the model sees: each token predicts the next, so neighbouring rows share one.
    return dataset.rows(context_length + 1, overlap=1, columns=COLUMNS)


def step_loss(model, batch, device):
    """The loss of one batch: inputs are all tokens but the last, labels all but the first."""
    moved = {key: value.to(device) for key, value in batch.items()}
    documents = moved["document_ids"]
    labels = moved["labels"].masked_fill(documents != documents.roll(1, dims=1), -100)[:, 1:]
    inputs = [moved[key][:, :-1] for key in ("input_ids", "position_ids", "document_ids")]
    return model(inputs[0], labels, inputs[1], inputs[2])


def save(path, content):
    """Save by a rename, so that a run that dies while saving leaves the previous checkpoint intact."""
    temporary = path.with_suffix(".tmp")
    torch.save(content, temporary)
    temporary.replace(path)


def batches_of(loader):
    """Batches, epoch after epoch."""
    if not len(loader) and not loader.state_dict()["position"]:
        raise SystemExit("the dataset has less than one batch for each rank: add text, or lower --batch_size")
    while True:
        yield from loader


def make_loader(rows, options, rank, world_size):
    """Shuffled batches of this rank as tensors; every rank gets the same number of them."""
    order = {"shuffle": "local" if getattr(options, "stream", False) else True, "seed": options.seed}
    feed = rows.batches(options.batch_size, rank=rank, world_size=world_size, drop_last=True, **order)
    return feed.to_torch(options.num_workers, dtype=torch.int64)


def main():
    options = parse_arguments()
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    checkpoint_path = options.output_dir / "checkpoint.pt"
    checkpoint = torch.load(checkpoint_path, map_location="cpu") if options.mode == "continue" else None
    text = None if checkpoint else Path(options.model_config).read_text(encoding="utf-8")
    model_config = checkpoint["model_config"] if checkpoint else json.loads(text)

    # Before any process group: waiting for the data is not a collective, so no collective can time out on it.
    rows = prepare_rows(options, model_config.get("max_position_embeddings", 128))
    if world_size > 1:
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(options.seed)
    model = Decoder(DecoderConfig.from_json(model_config, rows.dataset.vocab_size)).to(device)
    state = {
        "model": model,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=options.learning_rate),
        "data": make_loader(rows, options, rank, world_size),
    }
    for name, part in state.items() if checkpoint else ():
        part.load_state_dict(checkpoint[name])
    step = checkpoint["step"] if checkpoint else 0
    wrapped = DistributedDataParallel(model) if world_size > 1 else model
    mean = train(wrapped, state["optimizer"], state["data"], step, options, device)
    if rank == 0:
        content = {name: part.state_dict() for name, part in state.items()}
        save(checkpoint_path, {**content, "step": step + options.max_steps, "model_config": model_config})
    if world_size > 1:
        # In this order: torch 1.13 ends the group's threads while it holds the GIL, which they need to free a tensor.
        del wrapped
        distributed.destroy_process_group()
    del mean


def train(model, optimizer, loader, step, options, device):
    """Train `max_steps` steps; rank 0 logs the loss and the rows of each. Returns the last mean loss."""
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    log = (options.output_dir / "train.jsonl").open("a", encoding="utf-8") if rank == 0 else None
    autocast = torch.autocast(device.type, dtype=torch.bfloat16) if options.bf16 else nullcontext()
    batches, begin = batches_of(loader), time.monotonic()
    mean = torch.zeros((), device=device)
    for number in range(step, step + options.max_steps):
        batch = next(batches)
        with autocast:
            loss = step_loss(model, batch, device)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean.copy_(loss.detach())
        if world_size > 1:
            distributed.all_reduce(mean)
            mean /= world_size
        if log:
            line = {"step": number, "loss": round(mean.item(), 4), "epoch": loader.epoch}
            line |= {
                "rows_read": loader.state_dict()["position"],
                "first_ids": batch["input_ids"][:, :4].tolist(),
            }
            log.write(json.dumps(line) + "\n")
            if number % 10 == 0:
                log.flush()
                print(f"step {number}: loss {mean.item():.3f} ({time.monotonic() - begin:.1f}s)", flush=True)
    if log:
        log.close()
    return mean


if __name__ == "__main__":
    main()
