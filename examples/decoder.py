"""A small decoder in plain torch, of any version from 1.13: what examples/pretrain.py trains."""

import math
from dataclasses import dataclass, fields

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class DecoderConfig:
    """The keys of a Hugging Face `config.json` that a small decoder needs; others are ignored."""

    vocab_size: int = 0
    hidden_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    max_position_embeddings: int = 128

    @classmethod
    def from_json(cls, value, vocab_size):
        known = {field.name for field in fields(cls)}
        return cls(**{**{k: v for k, v in value.items() if k in known}, "vocab_size": vocab_size})


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        size = config.hidden_size
        self.heads = config.num_attention_heads
        self.before_attention, self.before_mlp = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def attend(self, hidden, mask):
        batch, length, size = hidden.shape
        split = self.qkv(hidden).view(batch, length, 3, self.heads, size // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        return self.out((weights @ value).transpose(1, 2).reshape(batch, length, size))

    def forward(self, hidden, mask):
        hidden = hidden + self.attend(self.before_attention(hidden), mask)
        return hidden + self.mlp(self.before_mlp(hidden))


class Decoder(nn.Module):
    """Ids and their documents -> the loss of predicting each next token within its document."""

    def __init__(self, config):
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.places = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.last = nn.LayerNorm(config.hidden_size)
        self.apply(self._start)

    @staticmethod
    def _start(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, input_ids, labels, position_ids, document_ids):
        length = input_ids.shape[1]
        before = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).tril()
        # No token attends to another document of its row.
        same = document_ids[:, :, None] == document_ids[:, None, :]
        mask = (before & same)[:, None]
        hidden = self.tokens(input_ids) + self.places(position_ids)
        for block in self.blocks:
            hidden = block(hidden, mask)
        logits = self.last(hidden) @ self.tokens.weight.T
        return functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100)
