"""Trains a tiny decoder, grafts it for an extended vocabulary in several ways, and prints the loss per byte of each."""

import json
import sys
from pathlib import Path

import numpy as np
import torch

import tokenmill
from tokenmill.vocab.graft import graft_model
from tokenmill.vocab.maps import load_map
from tokenmill.vocab.tensors import TensorFile

HOME = Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])
from decoder import Decoder, DecoderConfig  # noqa: E402

LENGTH, STEPS = 64, 300


def rows_of(tokenizer, texts):
    ids = [token for text in texts for token in tokenizer.encode(text)]
    rows = len(ids) // LENGTH
    return torch.tensor(ids[: rows * LENGTH], dtype=torch.long).view(rows, LENGTH)


def loss_of(model, rows):
    places = torch.arange(LENGTH - 1).expand(len(rows), -1)
    return model(rows[:, :-1], rows[:, 1:], places, torch.zeros_like(places))


def save(path, rows):
    data = rows.detach().numpy().astype(np.float32)
    header = {"tokens.weight": {"dtype": "F32", "shape": list(data.shape), "data_offsets": [0, data.nbytes]}}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data.tobytes())


def main():
    torch.manual_seed(1)
    texts = [
        json.loads(line)["text"] for line in (HOME / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    learned, held_out = texts[: len(texts) * 4 // 5], texts[len(texts) * 4 // 5 :]
    base, longer = (tokenmill.Tokenizer.load(HOME / name) for name in ("base", "longer"))
    model = Decoder(DecoderConfig(vocab_size=base.vocab_size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    rows = rows_of(base, learned)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, rows[torch.randint(len(rows), (8,))]).backward()
        optimizer.step()
    (HOME / "model").mkdir()
    save(HOME / "model" / "model.safetensors", model.tokens.weight)

    change = load_map(HOME / "longer")
    found = {}
    test = rows_of(longer, held_out)
    size = sum(len(longer.decode_bytes(row.tolist())) for row in test)
    for init in ("subword-mean", "mean", "random"):
        made = torch.zeros(change.size, model.tokens.weight.shape[1])
        if init == "random":
            made[:] = torch.randn_like(made) * model.tokens.weight.std()
            made[: base.vocab_size] = model.tokens.weight.detach()
        else:
            graft_model(HOME / "model", change, HOME / init, init=init, embeddings=["tokens.weight"])
            file = TensorFile(HOME / init / "model.safetensors")
            made[:] = torch.from_numpy(file.read_rows(file.tensors["tokens.weight"], 0, change.size).copy())
        grafted = Decoder(DecoderConfig(vocab_size=change.size))
        grafted.load_state_dict({**model.state_dict(), "tokens.weight": made})
        with torch.no_grad():
            found[init] = float(loss_of(grafted, test)) * test.numel() / size
    print(json.dumps(found))


if __name__ == "__main__":
    main()
