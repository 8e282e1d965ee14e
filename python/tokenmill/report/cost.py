"""Compute parameters, memory and FLOPs of a transformer from a JSON file.

Only matrix multiplies are counted: softmax, norms and other element-wise work are left out, as is usual.
Training costs three forward passes, because the backward pass multiplies each matrix twice.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import PositiveInt, TypeAdapter, ValidationError

from tokenmill.errors import ConfigError
from tokenmill.report.page import format_rows

# The names of each dimension, ours first, then those of HF configs; the first that is present is used.
KEYS = {
    "vocab_size": ("vocab_size",),
    "context_length": ("context_length", "max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"),
    "num_layers": ("num_layers", "num_hidden_layers", "n_layer"),
    "d_model": ("d_model", "hidden_size", "n_embd"),
    "num_heads": ("num_heads", "num_attention_heads", "n_head"),
    "d_ff": ("d_ff", "intermediate_size", "n_inner", "ffn_dim"),
}
# Families whose FFN has two matrices and whose norms have a shift; the first ones have learned positions.
LEARNED_POSITIONS = {"gpt2", "gpt_neo", "opt", "gpt_bigcode"}
TWO_MATRIX = LEARNED_POSITIONS | {"gpt_neox", "phi", "falcon", "starcoder2"}
TIED_BY_DEFAULT = {"gpt2", "gpt_neo", "gpt_bigcode", "opt", "falcon", "gemma", "gemma2", "gemma3_text"}
QKV_BIAS = {"qwen2", "qwen2_moe"}
BYTES_PER_PARAMETER = {"float32": 4, "bfloat16": 2, "int8": 1}
# Mixed-precision AdamW: bf16 weight and gradient (2 + 2), float32 master weight and two moments (4 + 4 + 4).
TRAINING_BYTES_PER_PARAMETER = 16
TRAINING_FACTOR = 3


@dataclass(frozen=True)
class ModelShape:
    """The dimensions that determine parameters and FLOPs; Llama-like by default."""

    vocab_size: PositiveInt
    context_length: PositiveInt
    num_layers: PositiveInt
    d_model: PositiveInt
    num_heads: PositiveInt
    d_ff: PositiveInt
    num_kv_heads: PositiveInt
    head_dim: PositiveInt
    tied: bool = False
    ffn_matrices: int = 3  # 2 with LayerNorm, whose norms have a shift
    bias: Literal["none", "qkv", "all"] = "none"
    learned_positions: bool = False


def load_shape(path: str | Path) -> ModelShape:
    """Return the shape in a JSON file with our names or those of an HF `config.json`."""
    try:
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
        raw = raw.get("text_config", raw)  # multimodal configs nest the decoder's own
        found = {name: _find(raw, *keys) for name, keys in KEYS.items()}
        if found["d_ff"] is None and found["d_model"] is not None:
            found["d_ff"] = 4 * found["d_model"]
        found = TypeAdapter(dict[str, PositiveInt]).validate_python(found)
        family, heads = raw.get("model_type", ""), found["num_heads"]
        two_matrix = family in TWO_MATRIX
        biased = raw.get("use_bias", two_matrix and family != "falcon")
        qkv = raw.get("attention_bias", family in QKV_BIAS)
        more = {
            "num_kv_heads": _find(raw, "num_kv_heads", "num_key_value_heads")
            or (1 if raw.get("multi_query") else heads),
            "head_dim": raw.get("head_dim") or found["d_model"] / heads,
            "tied": raw.get("tied", raw.get("tie_word_embeddings", family in TIED_BY_DEFAULT)),
            "ffn_matrices": 2 if two_matrix else 3,
            "bias": "all" if biased else "qkv" if qkv else "none",
            "learned_positions": family in LEARNED_POSITIONS,
        }
        return TypeAdapter(ModelShape).validate_python(found | more)
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{first['loc'][0]} is {first['input']!r}; {first['msg']}"
    except (ValueError, AttributeError, TypeError) as error:
        reason = f"is not a JSON object of numbers ({error})"
    expected = f"expected an object with {', '.join(KEYS)}, or an HF config.json of a decoder"
    raise ConfigError(f"{path}: {reason}; {expected}")


def _find(raw: dict[str, Any], *keys: str) -> Any:
    return next((raw[key] for key in keys if raw.get(key) is not None), None)


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
        "shape": asdict(shape),
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
    queries, keys = s.num_heads * s.head_dim, s.num_kv_heads * s.head_dim
    attention, ffn = 2 * s.d_model * (queries + keys), s.ffn_matrices * s.d_model * s.d_ff
    if s.bias != "none":
        attention += queries + 2 * keys
    if s.bias == "all":
        attention += s.d_model
        ffn += (s.ffn_matrices - 1) * s.d_ff + s.d_model
    # A learned table has one row per position of the model, or of a longer requested context.
    positions = max(s.context_length, context_length) if s.learned_positions else 0
    parts = {
        "embedding": s.vocab_size * s.d_model,
        "positions": positions * s.d_model,
        "attention projections": s.num_layers * attention,
        "feed-forward": s.num_layers * ffn,
        "norms": (2 * s.num_layers + 1) * s.d_model * (2 if s.ffn_matrices == 2 else 1),
        "output layer": 0 if s.tied else s.vocab_size * s.d_model,
    }
    return {name: count for name, count in parts.items() if count}


def _count_flops(s: ModelShape, length: int) -> dict[str, int]:
    queries, keys = s.num_heads * s.head_dim, s.num_kv_heads * s.head_dim
    return {
        "attention projections": s.num_layers * 4 * length * s.d_model * (queries + keys),
        "attention": s.num_layers * 4 * length * length * queries,
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
