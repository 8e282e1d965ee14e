"""Read a dataset with the library its format belongs to: `read_with.py KIND DIRECTORY [ROW]` prints its items as JSON.

Runs in an interpreter with torch and those libraries; imports nothing of ours.
"""

import json
import sys
import types
from pathlib import Path


def _mds_items(directory):
    # The package imports its vision part on the way, which needs torchvision; nothing of it is used here.
    sys.modules["streaming.vision"] = types.ModuleType("streaming.vision")
    from streaming import StreamingDataset

    dataset = StreamingDataset(local=directory, shuffle=False, batch_size=1)
    return [dataset[index] for index in range(len(dataset))]


def mds(directory):
    return [item["tokens"].tolist() for item in _mds_items(directory)]


class Sized:
    """A type of torch that tells its size, which those of Debian's torch do not yet."""

    def __init__(self, dtype):
        import torch

        self.dtype, self.itemsize = dtype, torch.empty(0, dtype=dtype).element_size()


def litdata(directory, length):
    import torch
    from litdata.streaming import StreamingDataset, TokensLoader, item_loader

    codes = item_loader._TORCH_DTYPES_MAPPING
    codes |= {code: Sized(dtype) for code, dtype in codes.items()}
    plain = torch.frombuffer
    torch.frombuffer = lambda *given, dtype, **more: plain(*given, dtype=dtype.dtype, **more)
    dataset = StreamingDataset(directory, item_loader=TokensLoader(int(length)), shuffle=False)
    return [dataset[index].tolist() for index in range(len(dataset))]


def megatron(directory):
    from megatron.core.datasets.indexed_dataset import MMapIndexedDataset

    found = []
    for index in sorted((Path(directory) / "shards").glob("*.idx")):
        dataset = MMapIndexedDataset(str(index.with_suffix("")))
        assert dataset.document_indices.tolist() == list(range(len(dataset) + 1))
        found += [dataset[at].tolist() for at in range(len(dataset))]
    return found


def _columns(items, ids):
    return {
        "ids": [item[ids].tolist() for item in items],
        "masks": [item["loss_mask"].tolist() for item in items],
    }


def mds_masks(directory):
    return _columns(_mds_items(directory), "tokens")


def litdata_masks(directory):
    from litdata.streaming import StreamingDataset

    dataset = StreamingDataset(directory, shuffle=False)
    return _columns([dataset[index] for index in range(len(dataset))], "input_ids")


def megatron_packed(directory):
    """Return the position that Megatron's rotary embedding gives each token of a batch of packed sequences."""
    import torch
    from megatron.core.models.common.embeddings.rotary_pos_embedding import apply_rotary_pos_emb_thd
    from megatron.core.packed_seq_params import PackedSeqParams

    batch = json.loads((Path(directory) / "batch.json").read_text())
    bounds = torch.tensor(batch["bounds"], dtype=torch.int32)
    longest = batch["max_seqlen"]
    params = PackedSeqParams("thd", bounds, bounds, longest, longest)
    angle = 0.001
    freqs = angle * torch.arange(params.max_seqlen_q, dtype=torch.float64)[:, None, None, None].expand(
        -1, 1, 1, 2
    )
    ones = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(batch["tokens"], 1, 2)
    turned = apply_rotary_pos_emb_thd(ones, params.cu_seqlens_q, freqs)
    return torch.round(torch.atan2(turned[:, 0, 1], turned[:, 0, 0]) / angle).long().tolist()


def megatron_masks(directory):
    from megatron.core.datasets.indexed_dataset import MMapIndexedDataset

    found = {"ids": [], "masks": []}
    for index in sorted((Path(directory) / "shards").glob("*.idx")):
        dataset = MMapIndexedDataset(str(index.with_suffix("")))
        key = "masks" if ".loss_mask" in index.name else "ids"
        found[key] += [dataset[at].tolist() for at in range(len(dataset))]
    return found


READERS = {
    "mds": mds,
    "litdata": litdata,
    "megatron": megatron,
    "mds-masks": mds_masks,
    "litdata-masks": litdata_masks,
    "megatron-masks": megatron_masks,
    "megatron-packed": megatron_packed,
}

if __name__ == "__main__":
    items = READERS[sys.argv[1]](*sys.argv[2:])
    print("\n" + json.dumps(items))
