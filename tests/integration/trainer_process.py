"""Train a small model with the `Trainer` of transformers: `python trainer_process.py DATASET OUTPUT KIND [KILL_AT]`.

KIND is `rows` or `mixture`. The loss and the rows of every step go to OUTPUT/RANK.jsonl. With KILL_AT the process kills
itself after that step, and without it the run resumes from the last checkpoint, if there is one.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
import transformers
from transformers.trainer_utils import get_last_checkpoint

import tokenmill
from tokenmill.compat.transformers import FeedMixin

LENGTH = 62


class Trainer(FeedMixin, transformers.Trainer):
    """The trainer with our data, which keeps what it reads."""

    seen = ()

    def training_step(self, model, inputs, *rest):
        self.seen = [*self.seen, *inputs["input_ids"].tolist()]
        return super().training_step(model, inputs, *rest)


class Watch(transformers.TrainerCallback):
    """Writes the loss and the rows of each step, and kills the process."""

    def __init__(self, path, kill_at):
        self.path, self.kill_at = path, kill_at
        self.trainer = None

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in logs:
            found = {"loss": float(logs["loss"]).hex(), "epoch": logs["epoch"], "rows": self.trainer.seen}
            with self.path.open("a") as file:
                file.write(json.dumps({"step": state.global_step, **found}) + "\n")
        self.trainer.seen = ()

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    folder, output, kind = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    kill_at = int(sys.argv[4]) if len(sys.argv) > 4 else None
    rows = tokenmill.open(folder).rows(LENGTH, columns=("labels",))
    data = rows if kind == "rows" else tokenmill.Mixture([rows, rows], [3, 1], seed=5)
    transformers.set_seed(1)
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=259, n_positions=LENGTH)
    arguments = transformers.TrainingArguments(
        output_dir=str(output),
        per_device_train_batch_size=2,
        gradient_accumulation_steps=3,
        num_train_epochs=2,
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_steps=6,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        seed=7,
        dataloader_num_workers=1,
    )
    output.mkdir(exist_ok=True)
    watch = Watch(output / f"{arguments.process_index}.jsonl", kill_at)
    model = transformers.GPT2LMHeadModel(config)
    trainer = Trainer(model=model, args=arguments, train_dataset=data, callbacks=[watch])
    watch.trainer = trainer
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(output)))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
