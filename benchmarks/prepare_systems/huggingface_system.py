"""The way of the transformers examples: datasets.map, group_texts, save_to_disk."""

import json
import sys
from itertools import chain
from pathlib import Path

from datasets import load_dataset
from transformers import PreTrainedTokenizerFast

LENGTH = 2048


def main(corpus, tokenizer, output, threads):
    output = Path(output)
    encoder = PreTrainedTokenizerFast(tokenizer_file=str(Path(tokenizer) / "tokenizer.json"))
    data = load_dataset("json", data_files=corpus, split="train", cache_dir=f"{output}-cache")
    encoded = data.map(
        lambda examples: encoder(examples["text"]),
        batched=True,
        num_proc=int(threads),
        remove_columns=data.column_names,
    )

    def group_texts(examples):
        joined = {name: list(chain(*values)) for name, values in examples.items()}
        total = len(joined["input_ids"]) // LENGTH * LENGTH
        rows = {name: [v[i : i + LENGTH] for i in range(0, total, LENGTH)] for name, v in joined.items()}
        rows["labels"] = rows["input_ids"].copy()
        return rows

    rows = encoded.map(group_texts, batched=True, num_proc=int(threads))
    rows.save_to_disk(str(output))
    (output / "tokens.json").write_text(json.dumps({"tokens": len(rows) * LENGTH}))


if __name__ == "__main__":
    main(*sys.argv[1:])
