"""The shape of a transformer, read from a JSON file: our own keys, or an HF `config.json`."""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from tokenmill.errors import ConfigError

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
