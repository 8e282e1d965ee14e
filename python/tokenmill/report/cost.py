"""Compute parameters, memory and FLOPs of a transformer from a JSON file.

Only matrix multiplies are counted: softmax, norms and other element-wise work are left out, as is usual.
Training costs three forward passes, because the backward pass multiplies each matrix twice.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tokenmill.errors import ConfigError
from tokenmill.report.page import format_rows

# HF configs have several names for one value; the first key that is present is used.
HF_KEYS = {
    "vocab_size": ("vocab_size",),
    "context_length": ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"),
    "num_layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "d_model": ("hidden_size", "n_embd", "d_model"),
    "num_heads": ("num_attention_heads", "n_head"),
    "d_ff": ("intermediate_size", "n_inner", "ffn_dim", "d_ff"),
}
# Families whose FFN has two matrices, biases everywhere, LayerNorm with a shift, and learned positions.
TWO_MATRIX = {"gpt2", "gpt_neo", "opt", "gpt_bigcode"}
TWO_MATRIX_ROTARY = {"gpt_neox", "phi", "falcon", "starcoder2"}
TIED_BY_DEFAULT = {"gpt2", "gpt_neo", "gpt_bigcode", "opt", "falcon", "gemma", "gemma2", "gemma3_text"}
QKV_BIAS = {"qwen2", "qwen2_moe"}
BYTES_PER_PARAMETER = {"float32": 4, "bfloat16": 2, "int8": 1}
# Mixed-precision AdamW: bf16 weight and gradient (2 + 2), float32 master weight and two moments (4 + 4 + 4).
TRAINING_BYTES_PER_PARAMETER = 16
TRAINING_FACTOR = 3


class ModelShape(BaseModel):
    """The dimensions that determine parameters and FLOPs; Llama-like by default."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    vocab_size: int = Field(gt=0)
    context_length: int = Field(gt=0)
    num_layers: int = Field(gt=0)
    d_model: int = Field(gt=0)
    num_heads: int = Field(gt=0)
    d_ff: int = Field(gt=0)
    num_kv_heads: int = Field(0, ge=0)  # 0: as many as num_heads
    head_dim: int = Field(0, ge=0)  # 0: d_model // num_heads
    tied: bool = False
    ffn: Literal["swiglu", "mlp"] = "swiglu"  # three matrices or two
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"  # layernorm has a shift and a scale
    attention_bias: bool = False  # on the query, key and value projections only
    bias: bool = False  # on every projection
    positions: Literal["rotary", "learned"] = "rotary"

    @model_validator(mode="after")
    def _check_heads(self) -> ModelShape:
        if self.head_dim == 0 and self.d_model % self.num_heads:
            raise ValueError(
                f"d_model {self.d_model} is not a multiple of num_heads {self.num_heads}; set head_dim"
            )
        if self.num_kv_heads and self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads {self.num_heads} is not a multiple of num_kv_heads {self.num_kv_heads}"
            )
        return self

    @property
    def q_width(self) -> int:
        """Return the columns of the query projection."""
        return self.num_heads * (self.head_dim or self.d_model // self.num_heads)

    @property
    def kv_width(self) -> int:
        """Return the columns of the key projection, smaller than `q_width` with grouped heads."""
        return (self.num_kv_heads or self.num_heads) * (self.head_dim or self.d_model // self.num_heads)

    @property
    def ffn_matrices(self) -> int:
        """Return 3 for a gated FFN, 2 for the classic one."""
        return 3 if self.ffn == "swiglu" else 2


def load_shape(path: str | Path) -> ModelShape:
    """Return the shape in a JSON file with the keys of `ModelShape` or of an HF `config.json`."""
    own = {name for name, field in ModelShape.model_fields.items() if field.is_required()}
    expected = f"expected an object with {', '.join(sorted(own))}, or an HF config.json of a decoder"
    try:
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); {expected}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: is not JSON ({error}); {expected}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: contains {type(raw).__name__}; {expected}")
    values = raw if raw.keys() >= own else _read_hf(raw)
    missing = sorted(name for name in own if values.get(name) is None)
    if missing:
        raise ConfigError(f"{path}: no value for {', '.join(missing)}; {expected}")
    try:
        return ModelShape(**values)
    except ValidationError as error:
        first = error.errors()[0]
        found = f"{first['loc'][0]} is {first['input']!r}; " if first["loc"] else ""
        raise ConfigError(f"{path}: {found}{first['msg']}") from error


def _read_hf(raw: dict[str, Any]) -> dict[str, Any]:
    raw = raw.get("text_config", raw)  # multimodal configs nest the decoder's own
    found: dict[str, Any] = {
        name: next((raw[key] for key in keys if raw.get(key) is not None), None)
        for name, keys in HF_KEYS.items()
    }
    if found["d_ff"] is None and found["d_model"] is not None:
        found["d_ff"] = 4 * found["d_model"]
    family = raw.get("model_type", "")
    classic = family in TWO_MATRIX
    two_matrix = classic or family in TWO_MATRIX_ROTARY
    return found | {
        "num_kv_heads": raw.get("num_key_value_heads") or (1 if raw.get("multi_query") else 0),
        "head_dim": raw.get("head_dim") or 0,
        "tied": bool(raw.get("tie_word_embeddings", family in TIED_BY_DEFAULT)),
        "ffn": "mlp" if two_matrix else "swiglu",
        "norm": "layernorm" if two_matrix else "rmsnorm",
        "attention_bias": bool(raw.get("attention_bias", family in QKV_BIAS)),
        "bias": bool(raw.get("use_bias", two_matrix and family != "falcon")),
        "positions": "learned" if classic else "rotary",
    }


def compute_cost(
    shape: ModelShape, *, context_length: int | None = None, tokens: int | None = None
) -> dict[str, Any]:
    """Return all figures of a shape, for one context length and, if given, for training on `tokens`.

    A tied output layer is counted once. Memory is that of the weights by dtype, and of training with AdamW
    without activations. Raise `ConfigError` for a number that is not positive.
    """
    length = shape.context_length if context_length is None else context_length
    for name, value in (("context_length", length), ("tokens", tokens)):
        if value is not None and value < 1:
            raise ConfigError(f"{name} is {value}; expected a positive number of tokens")
    parameters, flops = _count_parameters(shape, length), _count_flops(shape, length)
    total, forward = sum(parameters.values()), sum(flops.values())
    memory = {dtype: total * size for dtype, size in BYTES_PER_PARAMETER.items()}
    memory["training (bf16 + AdamW)"] = total * TRAINING_BYTES_PER_PARAMETER
    return {
        "shape": shape.model_dump(),
        "context_length": length,
        "parameters": total,
        "parameters_by_component": _add_shares(parameters),
        "memory_bytes": memory,
        "forward_flops": forward,
        "forward_flops_by_component": _add_shares(flops),
        "training_flops_per_token": TRAINING_FACTOR * forward // length,
        "tokens": tokens,
        "training_flops": None if tokens is None else TRAINING_FACTOR * forward * tokens // length,
    }


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
        # A learned table has one row per position of the model, or of a longer requested context.
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


def render(data: dict[str, Any]) -> str:
    """Return the tables that `tokenmill plan --model` prints."""
    memory = [(name, f"{size / 2**30:.2f} GiB") for name, size in data["memory_bytes"].items()]
    flops = f"Forward FLOPs for {data['context_length']:,} tokens"
    sections = [
        _format_parts("Parameters", data["parameters_by_component"], data["parameters"]),
        "Memory\n" + format_rows(memory),
        _format_parts(flops, data["forward_flops_by_component"], data["forward_flops"]),
        f"Training costs {data['training_flops_per_token']:,} FLOPs per token (three forward passes).",
    ]
    if data["training_flops"] is not None:
        sections.append(f"Training on {data['tokens']:,} tokens costs {data['training_flops']:.4g} FLOPs.")
    return "\n\n".join(sections)


def _format_parts(title: str, parts: dict[str, Any], total: int) -> str:
    rows = [(name, part["value"], f"{part['percent']:.2f} %") for name, part in parts.items()]
    return title + "\n" + format_rows([*rows, ("total", total, "")])
