"""Conversations per CPU-second: tokenmill against `datasets.map` with `apply_chat_template`, and TRL's way of doing it.

    python benchmarks/chat.py [--conversations 4000] [--tokenizer DIR]

Ids are compared conversation by conversation, and so are the masks that transformers can make. TRL prepares by the same
call with `return_assistant_tokens_mask`, one example at a time in `datasets.map`.
"""

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

WORDS = [
    "the",
    "mill",
    "turns",
    "the",
    "grain",
    "into",
    "flour",
    "while",
    "a",
    "river",
    "carries",
    "water",
    "past",
    "the",
    "old",
    "wheel",
    "and",
    "everyone",
    "counts",
]
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}"
    "{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
)


def make_chats(count, seed=1):
    rng = random.Random(seed)
    say = lambda low, high: " ".join(rng.choices(WORDS, k=rng.randint(low, high))) + f" {rng.random():.6f}."  # noqa: E731
    return [
        {
            "messages": [
                m
                for _ in range(rng.randint(1, 4))
                for m in (
                    {"role": "user", "content": say(10, 60)},
                    {"role": "assistant", "content": say(40, 200)},
                )
            ]
        }
        for _ in range(count)
    ]


def make_tokenizer(place):
    """A vocabulary of 8,000 trained on the words, with a template whose answers are marked."""
    import tokenmill

    texts = (message["content"] for chat in make_chats(2000, 2) for message in chat["messages"])
    tokenmill.train_from_iterator(
        texts, 8000, special_tokens=["<|im_start|>", "<|im_end|>"], progress=False
    ).save(place)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": CHATML,
        "eos_token": "<|im_end|>",
    }
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    return place


def cpu(function):
    started = time.process_time()
    result = function()
    return result, time.process_time() - started


def by_tokenmill(path, tokenizer, output):
    import tokenmill

    return tokenmill.prepare(
        str(path), str(tokenizer), str(output), threads=1, parity_check=False, report=False, show_progress=False,
        verbose_level="ERROR",
    )  # fmt: skip


def by_map(path, tokenizer, *, masks):
    import datasets
    from transformers import AutoTokenizer

    datasets.disable_progress_bars()
    hf = AutoTokenizer.from_pretrained(str(tokenizer))

    def encode(example):
        made = hf.apply_chat_template(
            example["messages"], return_dict=True, return_assistant_tokens_mask=masks
        )
        return {key: made[key] for key in ("input_ids", "assistant_masks") if key in made}

    with tempfile.TemporaryDirectory() as cache:
        loaded = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=cache)
        made = loaded.map(encode, remove_columns=loaded.column_names, load_from_cache_file=False)
        return made[:]


def compare(dataset, made):
    for number, expected in enumerate(made["input_ids"]):
        assert dataset[number].tolist() == list(expected), f"conversation {number} has other ids"
        if "assistant_masks" in made:
            assert dataset.loss_mask(number).astype(int).tolist() == list(made["assistant_masks"][number])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=4000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--tokenizer", type=Path)
    options = parser.parse_args()
    chats = make_chats(options.conversations)
    with tempfile.TemporaryDirectory(prefix="tokenmill-bench-chat-") as folder:
        place = Path(folder)
        path = place / "chats.jsonl"
        path.write_text("".join(json.dumps(chat) + "\n" for chat in chats))
        tokenizer = options.tokenizer or make_tokenizer(place / "tokenizer")
        names = {"datasets.map": False, "with the mask, as TRL": not options.tokenizer}
        times = {name: [] for name in ("tokenmill prepare", *names)}
        # In turns, so that a busy machine slows all of them; the first turn loads what is imported late.
        for turn in range(options.turns + 1):
            dataset, seconds = cpu(lambda turn=turn: by_tokenmill(path, tokenizer, place / f"out{turn}"))
            times["tokenmill prepare"].append(seconds)
            for name, masks in names.items():
                made, seconds = cpu(lambda masks=masks: by_map(path, tokenizer, masks=masks))
                times[name].append(seconds)
                compare(dataset, made)
        best = {name: min(found[1:]) for name, found in times.items()}
        print(
            f"{len(chats):,} conversations, {dataset.num_tokens:,} tokens, ids and masks equal; CPU-seconds"
        )
        for name, seconds in best.items():
            ratio = seconds / best["tokenmill prepare"]
            print(f"{name:24} {seconds:8.2f} s  {len(chats) / seconds:10,.0f} per CPU-second  {ratio:.1f}x")


if __name__ == "__main__":
    main()
