"""Instruction tuning with a masked loss, from conversations to a falling loss.

    python examples/finetune.py --mode sft --dataset chats.jsonl --tokenizer_path tokenizer --output_dir out

Without --dataset, a small sample of questions and answers is made and a tokenizer is trained on it. Only the
assistant's messages and the tokens that end them are learned; attention stays inside a conversation.
"""

import argparse
import json
from pathlib import Path

import torch
from decoder import Decoder, DecoderConfig
from pretrain import COLUMNS, batches_of, make_loader, step_loss

import tokenmill

TINY = Path(__file__).with_name("model_config_tiny.json")
THINGS = "grain flour water wheel stone river bread barn sack wind".split()


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=["sft"], default="sft")
    parser.add_argument("--dataset", nargs="*", help="files of conversations; default: a generated sample")
    parser.add_argument("--tokenizer_path", help="default: one is trained on the sample")
    parser.add_argument("--chat_template", help="a Jinja file or a name; default: the tokenizer's own")
    parser.add_argument("--model_config", default=str(TINY))
    parser.add_argument("--output_dir", required=True, type=Path)
    parser.add_argument("--context_length", type=int, default=128)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--max_steps", type=int, default=60)
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--num_workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def make_sample(path):
    """Write questions that have one answer each, so that the model can learn them."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(400):
            first, second = THINGS[number % 10], THINGS[number // 10 % 10]
            question = {"role": "user", "content": f"What comes of {first} and {second}, case {number}?"}
            answer = {"role": "assistant", "content": f"Of {first} and {second} comes more {first}."}
            file.write(json.dumps({"messages": [question, answer]}) + "\n")
    return [str(path)]


def train_tokenizer(files, place):
    """Train a small vocabulary with the tokens of ChatML."""
    specials = ["<|im_start|>", "<|im_end|>"]
    lines = (line for file in files for line in Path(file).read_text(encoding="utf-8").splitlines())
    records = map(json.loads, lines)
    texts = (message["content"] for record in records for message in record["messages"])
    tokenmill.train_from_iterator(texts, 400, special_tokens=specials, progress=False).save(place)
    return str(place)


def main():
    options = parse_arguments()
    options.output_dir.mkdir(parents=True, exist_ok=True)
    files = options.dataset or make_sample(options.output_dir / "sample.jsonl")
    tokenizer = options.tokenizer_path or train_tokenizer(files, options.output_dir / "tokenizer")
    template = options.chat_template or (None if options.tokenizer_path else "chatml")
    dataset = tokenmill.prepare(
        inputs=files,
        tokenizer=tokenizer,
        output=str(options.output_dir / "data"),
        context_length=options.context_length + 1,
        chat_template=template,
    )
    account = dataset.manifest.account
    print(f"{account.learned_written:,} of {account.tokens_written:,} tokens are learned")
    torch.manual_seed(options.seed)
    model_config = json.loads(Path(options.model_config).read_text(encoding="utf-8"))
    model = Decoder(DecoderConfig.from_json(model_config, dataset.vocab_size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    loader = make_loader(dataset.rows(columns=COLUMNS), options, 0, 1)
    with (options.output_dir / "loss.jsonl").open("w", encoding="utf-8") as log:
        for step, batch in zip(range(options.max_steps), batches_of(loader), strict=False):
            loss = step_loss(model, batch, torch.device("cpu"))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.write(json.dumps({"step": step, "loss": loss.item()}) + "\n")
            if step % 10 == 0 or step == options.max_steps - 1:
                print(f"step {step}: loss on learned tokens {loss.item():.3f}")


if __name__ == "__main__":
    main()
