"""A replacement for nanochat's `tokenizing_distributed_data_loader_with_state_bos_bestfit`.

In nanochat/dataloader.py, import this function instead of defining it. The shapes are the same, every row begins
with BOS and has no padding, and a run resumes with the exact batch, on any number of ranks.
"""

import os
from pathlib import Path

import torch

import tokenmill


def tokenizing_distributed_data_loader_with_state_bos_bestfit(
    tokenizer,
    B,  # noqa: N803 - nanochat's name
    T,  # noqa: N803
    split,
    tokenizer_threads=4,
    device="cuda",
    resume_state_dict=None,
    **_ignored,
):
    """Yield inputs and targets of `[B, T]`, and the state that begins with them.

    `tokenizer` is nanochat's, whose `enc` is a tiktoken or Tokenmill encoding. nanochat saves a checkpoint when it
    has fetched a batch and not trained on it yet, so the state is the one before the batch.
    """
    from nanochat.dataset import list_parquet_files

    paths = list_parquet_files()
    stream = tokenmill.stream(
        paths[:-1] if split == "train" else paths[-1:],
        tokenmill.Tokenizer.load(tokenizer.enc),
        Path(os.environ.get("NANOCHAT_BASE_DIR", ".")) / f"stream-{split}",
        bos=tokenizer.get_bos_token_id(),
        eos=False,
        threads=tokenizer_threads,
        verbose_level="WARNING",
    )
    feed = stream.rows(T + 1, packing="bestfit", bos_aligned=True).batches(
        B,
        shuffle="local",
        seed=1,
        rank=int(os.environ.get("RANK", "0")),
        world_size=int(os.environ.get("WORLD_SIZE", "1")),
        prefetch=2,
    )
    if resume_state_dict is not None:
        feed.load_state_dict(resume_state_dict["feed"])
    state = feed.state_dict()
    for batch in feed:
        ids = torch.from_numpy(batch["input_ids"].astype("int64")).to(device)
        # nanochat logs the three numbers.
        log = {"epoch": feed.epoch, "pq_idx": 0, "rg_idx": state["position"]}
        yield ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), {"feed": state, **log}
        state = feed.state_dict()
