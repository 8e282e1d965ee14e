"""Hand a dataset to a trainer as docs/trainers.md says: `train_with.py KIND FOLDER` prints what the trainer saw as JSON.

Runs in an interpreter with torch and those trainers, and with this checkout on its path.
"""

import contextlib
import json
import sys
from pathlib import Path

import numpy as np

LENGTH = 32


def grain(folder):
    import grain

    import tokenmill

    rows = tokenmill.open(folder).rows(LENGTH + 1, overlap=1)
    examples = grain.MapDataset.source(rows).map(lambda row: {"inputs": row[:-1], "targets": row[1:]})
    batches = list(examples.shuffle(1).batch(4))
    return [
        [*map(int, inputs), int(targets[-1])]
        for batch in batches
        for inputs, targets in zip(batch["inputs"], batch["targets"], strict=True)
    ]


def lightning(folder):
    import lightning
    import torch

    import tokenmill

    seen = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Embedding(300, 1)

        def training_step(self, batch, _number):
            assert torch.equal(batch["input_ids"], batch["labels"])
            seen.extend(batch["input_ids"].tolist())
            return self.layer(batch["input_ids"]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **quiet)
    rows = tokenmill.open(folder).rows(LENGTH, columns=("labels",))
    trainer.fit(Model(), train_dataloaders=rows.batches(4, shuffle=True).to_torch(num_workers=0))
    return seen


def trl(folder):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    import tokenmill
    from small_tokenizers import write_bpe

    rows = tokenmill.open(folder).rows(LENGTH, columns=("labels", "attention_mask"))
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=300, **sizes))
    tokenizer = tokenmill.Tokenizer.load(write_bpe(Path(folder) / "tok")).as_hf(pad_token="<|endoftext|>")
    plain = {"report_to": "none", "save_strategy": "no", "use_cpu": True, "bf16": False}
    config = SFTConfig(output_dir=f"{folder}/trl", max_steps=2, per_device_train_batch_size=4, **plain)
    trainer = SFTTrainer(model, config, train_dataset=rows.to_hf(), processing_class=tokenizer)
    trainer.train()
    # What it made of our rows before it batched them: nothing may be tokenized or cut again.
    return [list(map(int, row)) for row in trainer.train_dataset["input_ids"]]


def trl_chat(folder):
    """What TRL makes of prepared conversations, with the recipe of docs/chat.md and with its own preparation."""
    import warnings

    import datasets
    import torch
    import transformers
    from trl import SFTConfig, SFTTrainer

    import tokenmill

    folder, steps = Path(folder), {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "tokenizer", pad_token="</s>")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    plain = {"report_to": "none", "save_strategy": "no", "use_cpu": True, "bf16": False, "seed": 3}
    plain |= {
        "max_steps": 20,
        "per_device_train_batch_size": 2,
        "logging_steps": 1,
        "output_dir": folder / "o",
    }
    skip = {"dataset_kwargs": {"skip_prepare_dataset": True}}

    def train(name, data, **options):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=300, **sizes))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            config = SFTConfig(**plain, **options)
            trainer = SFTTrainer(model, config, train_dataset=data, processing_class=tokenizer)
            trainer.train()
        steps[name] = {
            "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
            "rows": [
                [(token, label) for token, label in zip(row["input_ids"], row["labels"], strict=True)]
                for row in trainer.train_dataset
            ],
            "warnings": sorted(str(each.message) for each in caught),
        }

    rows = tokenmill.open(folder / "padded").rows(columns=["labels"])
    train("ours", rows.to_hf(), max_length=rows.context_length, **skip)
    records = [json.loads(line) for line in (folder / "a.jsonl").read_text().splitlines()]
    own = datasets.Dataset.from_list(records)
    train("trl", own, max_length=rows.context_length, assistant_only_loss=True)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=300, **sizes))
    given = {"model": model, "tokenizer": tokenizer, "tokenmill": tokenmill}
    recipe = (folder / "recipe.py").read_text()  # the page's own block
    exec(recipe.replace("SFTConfig(", "SFTConfig(use_cpu=True, bf16=False, report_to='none',"), given)
    batch = given["trainer"].data_collator([given["trainer"].train_dataset[number] for number in (0, 1)])
    return {**steps, "position_ids": batch["position_ids"].tolist(), "labels": batch["labels"].tolist()}


def olmo(folder):
    from olmo_core.data.numpy_dataset import NumpyFSLDataset

    files = sorted(Path(folder).glob("shards/*.npy"))
    ids = {"pad_token_id": 258, "eos_token_id": 256, "vocab_size": 259}
    dataset = NumpyFSLDataset(*files, sequence_length=LENGTH, dtype=np.uint16, **ids)
    dataset.work_dir = Path(folder) / "work"
    dataset.prepare()
    return [dataset[number]["input_ids"].tolist() for number in range(len(dataset))]


def llamafactory(folder):
    from llamafactory.data import get_dataset
    from llamafactory.hparams import DataArguments

    found = get_dataset(None, None, DataArguments(tokenized_path=folder), None, "pt", None)
    return rows_of(found["train_dataset"])


def axolotl(folder):
    from axolotl.utils.data.sft import _load_and_process_single_dataset
    from axolotl.utils.dict import DictDefault

    dataset = DictDefault({"path": folder, "ds_type": "arrow"})
    found, prompter = _load_and_process_single_dataset(dataset, DictDefault({}), None, "train", 1)
    assert type(prompter).__name__ == "UnsupportedPrompter"  # its word for a dataset that has tokens already
    return rows_of(found)


def rows_of(dataset):
    """The ids of a `datasets.Dataset` whose other two columns follow from them."""
    rows = dataset.to_dict()
    assert rows["labels"] == rows["input_ids"]
    assert all(set(mask) <= {1} for mask in rows["attention_mask"])
    return rows["input_ids"]


KINDS = {
    "grain": grain,
    "lightning": lightning,
    "trl": trl,
    "trl_chat": trl_chat,
    "olmo": olmo,
    "llamafactory": llamafactory,
    "axolotl": axolotl,
}

if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        found = KINDS[sys.argv[1]](sys.argv[2])
    print(json.dumps(found))
