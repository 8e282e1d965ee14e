"""The shape of a transformer, read from a JSON file: our own keys, or an HF `config.json`."""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence


# HF spells one idea several ways; the first key that is present counts.
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


@dataclass(frozen=True)
class ModelShape:
    """What decides parameters and FLOPs; by default Llama-like: SwiGLU, RMSNorm, untied, no bias."""

    vocab_size: int
    context_length: int
    num_layers: int
    d_model: int
    num_heads: int
    d_ff: int
    num_kv_heads: int = 0  # 0: as many as num_heads
    head_dim: int = 0  # 0: d_model // num_heads
    tied: bool = False
    ffn: str = "swiglu"  # or "mlp": two matrices
    norm: str = "rmsnorm"  # or "layernorm": a shift beside the scale
    attention_bias: bool = False  # on the query, key and value projections only
    bias: bool = False  # on every projection
    positions: str = "rotary"  # or "learned"

    @property
    def q_width(self) -> int:
        """Columns of the query projection."""
        return self.num_heads * (self.head_dim or self.d_model // self.num_heads)

    @property
    def kv_width(self) -> int:
        """Columns of the key (or value) projection; smaller than `q_width` with grouped heads."""
        return (self.num_kv_heads or self.num_heads) * (self.head_dim or self.d_model // self.num_heads)

    @property
    def ffn_matrices(self) -> int:
        """3 for a gated FFN, 2 for the classic one."""
        return 3 if self.ffn == "swiglu" else 2


OWN_KEYS = {each.name for each in fields(ModelShape) if each.default is MISSING}
OPTIONAL_KEYS = {each.name for each in fields(ModelShape)} - OWN_KEYS


def load_shape(path: str | Path) -> ModelShape:
    """`load_shape("gpt2-xl.json")` -> the shape, whichever of the two spellings the file has."""
    path = Path(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); give a JSON file that describes a model"
        ) from error
    except ValueError as error:
        raise ConfigError(
            f"{path}: is not JSON ({error}); expected an object with {_list(OWN_KEYS)}"
        ) from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: holds {type(raw).__name__}; expected an object with {_list(OWN_KEYS)}")
    shape = _from_own(raw, path) if raw.keys() >= OWN_KEYS else _from_hf(raw, path)
    _check(shape, path)
    return shape


def _from_own(raw: dict[str, Any], path: Path) -> ModelShape:
    unknown = raw.keys() - OWN_KEYS - OPTIONAL_KEYS
    if unknown:
        raise ConfigError(
            f"{path}: unknown key {_list(unknown)}; the known keys are {_list(OWN_KEYS | OPTIONAL_KEYS)}"
        )
    return ModelShape(**raw)


def _from_hf(raw: dict[str, Any], path: Path) -> ModelShape:
    raw = raw.get("text_config", raw)  # multimodal configs nest the decoder's own
    found: dict[str, Any] = {
        name: next((raw[key] for key in keys if raw.get(key) is not None), None)
        for name, keys in HF_KEYS.items()
    }
    if found["d_ff"] is None and found["d_model"] is not None:
        found["d_ff"] = 4 * found["d_model"]
    missing = {name for name, value in found.items() if value is None}
    if missing:
        raise ConfigError(
            f"{path}: no value for {_list(missing)}; expected our keys ({_list(OWN_KEYS)}) "
            "or an HF config.json of a decoder (hidden_size, num_hidden_layers, …)"
        )
    family = raw.get("model_type", "")
    classic = family in TWO_MATRIX
    two_matrix = classic or family in TWO_MATRIX_ROTARY
    return ModelShape(
        **found,
        num_kv_heads=raw.get("num_key_value_heads") or (1 if raw.get("multi_query") else 0),
        head_dim=raw.get("head_dim") or 0,
        tied=bool(raw.get("tie_word_embeddings", family in TIED_BY_DEFAULT)),
        ffn="mlp" if two_matrix else "swiglu",
        norm="layernorm" if two_matrix else "rmsnorm",
        attention_bias=bool(raw.get("attention_bias", family in QKV_BIAS)),
        bias=bool(raw.get("use_bias", two_matrix and family != "falcon")),
        positions="learned" if classic else "rotary",
    )


def _check(shape: ModelShape, path: Path) -> None:
    for name in (*sorted(OWN_KEYS), "num_kv_heads", "head_dim"):
        value = getattr(shape, name)
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or value < (0 if name in OPTIONAL_KEYS else 1)
        ):
            raise ConfigError(f"{path}: {name} is {value!r}; expected a positive whole number")
    if shape.head_dim == 0 and shape.d_model % shape.num_heads:
        raise ConfigError(
            f"{path}: d_model {shape.d_model} is not a multiple of num_heads {shape.num_heads}; set head_dim"
        )
    if shape.num_kv_heads and shape.num_heads % shape.num_kv_heads:
        raise ConfigError(
            f"{path}: num_heads {shape.num_heads} is not a multiple of num_kv_heads {shape.num_kv_heads}"
        )
    for name, allowed in (
        ("ffn", ("swiglu", "mlp")),
        ("norm", ("rmsnorm", "layernorm")),
        ("positions", ("rotary", "learned")),
    ):
        if getattr(shape, name) not in allowed:
            raise ConfigError(f"{path}: {name} is {getattr(shape, name)!r}; expected {' or '.join(allowed)}")


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names))


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


def render(result: ModelCost) -> str:
    """The tables that `tokenmill plan --model` prints."""
    data = result.to_dict()
    sections = [
        _format_parts("Parameters", data["parameters_by_component"], data["parameters"]),
        "Memory\n"
        + _align([(name, f"{size / 2**30:.2f} GiB") for name, size in data["memory_bytes"].items()]),
        _format_parts(
            f"Forward FLOPs for {result.context_length:,} tokens",
            data["forward_flops_by_component"],
            data["forward_flops"],
        ),
        f"Training costs {data['training_flops_per_token']:,} FLOPs per token (three forward passes).",
    ]
    if result.training_flops is not None:
        sections.append(f"Training on {result.tokens:,} tokens costs {result.training_flops:.4g} FLOPs.")
    rows = [
        (
            f"{row['vocab_size']:,}",
            f"{row['embedding_parameters']:,}",
            f"{row['embedding_percent']:.2f} %",
            f"{row['forward_flops_per_token']:,}",
            f"{row['break_even_percent']:+.2f} %",
        )
        for row in data["vocabulary"]
    ]
    header = (
        "vocabulary",
        "embedding parameters",
        "of all",
        "FLOPs per token",
        "bytes per token to break even",
    )
    sections.append("What a larger vocabulary costs and saves\n" + _align([header, *rows]))
    return "\n\n".join(sections)


def _format_parts(title: str, parts: dict[str, Any], total: int) -> str:
    rows = [(name, f"{part['value']:,}", f"{part['percent']:.2f} %") for name, part in parts.items()]
    return title + "\n" + _align([*rows, ("total", f"{total:,}", "")])


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        right = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join(["", first.ljust(widths[0]), *right]).rstrip())
    return "\n".join(lines)
