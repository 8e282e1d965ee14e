"""The cost of a transformer: parameters, memory and matrix-multiply FLOPs, per component.

A product of an (m x k) and a (k x n) matrix costs 2mkn FLOPs; norms, softmax and element-wise work are
left out, as is usual. Training costs three forward passes: the backward pass multiplies each matrix twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from tokenmill.report.cost.model_shape import ModelShape

BYTES_PER_PARAMETER = {"float32": 4, "bfloat16": 2, "int8": 1}
# Mixed-precision AdamW: bf16 weight and gradient (2 + 2), float32 master weight and two moments (4 + 4 + 4).
TRAINING_BYTES_PER_PARAMETER = 16
TRAINING_FACTOR = 3
VOCABULARIES = (32_000, 64_000, 128_000, 200_000, 256_000)


@dataclass(frozen=True)
class ModelCost:
    """The cost of one shape at one context length; `to_dict` is what `--json` prints."""

    shape: ModelShape
    context_length: int
    parameters: dict[str, int]
    flops: dict[str, int]
    tokens: int | None = None

    @property
    def total_parameters(self) -> int:
        """Trainable parameters; a tied output layer is counted once."""
        return sum(self.parameters.values())

    @property
    def forward_flops(self) -> int:
        """One forward pass over `context_length` tokens."""
        return sum(self.flops.values())

    @property
    def training_flops(self) -> int | None:
        """All of training on `tokens` tokens, in sequences of `context_length`."""
        return (
            None
            if self.tokens is None
            else TRAINING_FACTOR * self.forward_flops * self.tokens // self.context_length
        )

    @property
    def memory(self) -> dict[str, int]:
        """Bytes to load the weights by dtype, and to train them with AdamW before any activation."""
        total = self.total_parameters
        return {dtype: total * size for dtype, size in BYTES_PER_PARAMETER.items()} | {
            "training (bf16 + AdamW)": total * TRAINING_BYTES_PER_PARAMETER
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything, with shares in percent, ready for JSON."""
        return {
            "shape": dict(vars(self.shape)),
            "context_length": self.context_length,
            "parameters": self.total_parameters,
            "parameters_by_component": _add_shares(self.parameters),
            "memory_bytes": self.memory,
            "forward_flops": self.forward_flops,
            "forward_flops_by_component": _add_shares(self.flops),
            "training_flops_per_token": TRAINING_FACTOR * self.forward_flops // self.context_length,
            "tokens": self.tokens,
            "training_flops": self.training_flops,
            "vocabulary": compare_vocabularies(self.shape, self.context_length),
        }


def compute_cost(
    shape: ModelShape, *, context_length: int | None = None, tokens: int | None = None
) -> ModelCost:
    """`compute_cost(gpt2_xl).forward_flops` -> 4_513_336_524_800.

    Raises `ConfigError` for a context length or a number of tokens below 1.
    """
    length = shape.context_length if context_length is None else context_length
    if length < 1:
        raise ConfigError(f"context_length is {length}; expected a positive number of tokens")
    if tokens is not None and tokens < 1:
        raise ConfigError(f"tokens is {tokens}; expected a positive number of tokens")
    return ModelCost(shape, length, _count_parameters(shape, length), _count_flops(shape, length), tokens)


def compare_vocabularies(shape: ModelShape, context_length: int) -> list[dict[str, Any]]:
    """What a larger vocabulary costs, and how much shorter it must make sequences to pay for itself.

    `break_even_percent` is the rise in bytes per token over this shape's own vocabulary at which the forward
    FLOPs per byte of text are the same; above it the larger vocabulary trains faster on the same text.
    """
    base = _count_flops_per_token(shape, context_length)
    rows = []
    for size in sorted({*VOCABULARIES, shape.vocab_size}):
        other = replace(shape, vocab_size=size)
        parameters = _count_parameters(other, context_length)
        embedding = parameters["embedding"] + parameters.get("output layer", 0)
        per_token = _count_flops_per_token(other, context_length)
        rows.append(
            {
                "vocab_size": size,
                "embedding_parameters": embedding,
                "embedding_percent": round(100 * embedding / sum(parameters.values()), 2),
                "forward_flops_per_token": per_token,
                "break_even_percent": round(100 * (per_token / base - 1), 2),
            }
        )
    return rows


def _count_flops_per_token(shape: ModelShape, context_length: int) -> int:
    return sum(_count_flops(shape, context_length).values()) // context_length


def _count_parameters(s: ModelShape, context_length: int) -> dict[str, int]:
    norm = s.d_model * (2 if s.norm == "layernorm" else 1)
    attention = 2 * s.d_model * s.q_width + 2 * s.d_model * s.kv_width
    if s.attention_bias or s.bias:
        attention += s.q_width + 2 * s.kv_width + (s.d_model if s.bias else 0)
    ffn = s.ffn_matrices * s.d_model * s.d_ff
    if s.bias:
        ffn += (s.ffn_matrices - 1) * s.d_ff + s.d_model
    parts = {"embedding": s.vocab_size * s.d_model}
    if s.positions == "learned":
        # A learned table has one row per position of the model, or of the longer context that is asked about.
        parts["positions"] = max(s.context_length, context_length) * s.d_model
    parts |= {
        "attention projections": s.num_layers * attention,
        "feed-forward": s.num_layers * ffn,
        "norms": (2 * s.num_layers + 1) * norm,
    }
    if not s.tied:
        parts["output layer"] = s.vocab_size * s.d_model
    return parts


def _count_flops(s: ModelShape, length: int) -> dict[str, int]:
    projections = 2 * length * s.d_model * (2 * s.q_width + 2 * s.kv_width)
    return {
        "attention projections": s.num_layers * projections,
        "attention": s.num_layers * 2 * (2 * length * length * s.q_width),
        "feed-forward": s.num_layers * s.ffn_matrices * 2 * length * s.d_model * s.d_ff,
        "output layer": 2 * length * s.d_model * s.vocab_size,
    }


def _add_shares(parts: dict[str, int]) -> dict[str, dict[str, Any]]:
    total = sum(parts.values())
    return {name: {"value": value, "percent": round(100 * value / total, 2)} for name, value in parts.items()}
