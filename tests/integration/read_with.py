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
}

if __name__ == "__main__":
    items = READERS[sys.argv[1]](*sys.argv[2:])
    print("\n" + json.dumps(items))
