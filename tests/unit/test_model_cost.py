"""Accounting: figures worked out by hand elsewhere, and the published sizes of known models."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tokenmill.cli import cli
from tokenmill.errors import ConfigError
from tokenmill.report.cost import compute_cost, load_shape

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpt2-xl.json"


def shape_of(tmp_path, **values):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    return load_shape(path)


def test_gpt2_xl_in_a_llama_shape():
    result = compute_cost(load_shape(EXAMPLE))
    assert result["parameters"] == 2_127_057_600
    assert result["memory_bytes"]["float32"] == 4 * 2_127_057_600
    assert result["forward_flops"] == 4_513_336_524_800
    ffn = result["forward_flops_by_component"]["feed-forward"]
    assert ffn == {"value": 3_019_898_880_000, "percent": 66.91}


def test_gpt2_xl_at_a_longer_context():
    result = compute_cost(load_shape(EXAMPLE), context_length=16_384)
    assert result["forward_flops"] == 149_522_795_724_800
    assert result["forward_flops_by_component"]["attention"]["percent"] == pytest.approx(55, abs=0.5)


def test_the_command_prints_the_same_figures():
    table = CliRunner().invoke(cli, ["plan", "--model", str(EXAMPLE)])
    for figure in ("2,127,057,600", "4,513,336,524,800", "3,019,898,880,000", "66.91 %", "7.92 GiB"):
        assert figure in table.output
    data = json.loads(
        CliRunner().invoke(cli, ["plan", "--model", str(EXAMPLE), "--json", "--budget-tokens", "1e9"]).output
    )
    assert data["parameters"] == 2_127_057_600
    assert data["training_flops"] == 3 * 4_513_336_524_800 * 10**9 // 1024


GPT2 = {"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024}
LLAMA = {"model_type": "llama", "vocab_size": 128256, "max_position_embeddings": 8192, "hidden_size": 4096}
SHAPE = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size")
LLAMA |= zip(SHAPE, (32, 32, 8, 14336), strict=True)
QWEN = {"model_type": "qwen2", "vocab_size": 151936, "max_position_embeddings": 131072, "hidden_size": 896}
QWEN |= zip(SHAPE, (24, 14, 2, 4864), strict=True)


@pytest.mark.parametrize(
    ("values", "published"),
    [
        (GPT2 | {"n_layer": 12, "n_embd": 768, "n_head": 12}, 124_439_808),
        (GPT2 | {"n_layer": 24, "n_embd": 1024, "n_head": 16}, 354_823_168),
        (GPT2 | {"n_layer": 36, "n_embd": 1280, "n_head": 20}, 774_030_080),
        (GPT2 | {"n_layer": 48, "n_embd": 1600, "n_head": 25}, 1_557_611_200),
        (LLAMA, 8_030_261_248),
        (QWEN | {"tie_word_embeddings": True}, 494_032_768),
    ],
)
def test_published_sizes(tmp_path, values, published):
    assert compute_cost(shape_of(tmp_path, **values))["parameters"] == published


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not a JSON object"),
        ("[]", "is not a JSON object"),
        ('{"vocab_size": 5}', "context_length is None"),
        (
            '{"vocab_size":1,"context_length":1,"num_layers":0,"d_model":2,"num_heads":2,"d_ff":1}',
            "num_layers is 0",
        ),
        (
            '{"vocab_size":1,"context_length":1,"num_layers":1,"d_model":"two","num_heads":2,"d_ff":1}',
            "d_model is 'two'",
        ),
        (
            '{"vocab_size":1,"context_length":1,"num_layers":1,"d_model":3,"num_heads":2,"d_ff":1}',
            "head_dim is 1.5",
        ),
    ],
)
def test_a_bad_model_file_is_named(tmp_path, text, says):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        load_shape(path)
    assert str(path) in str(caught.value)


def test_bad_numbers():
    with pytest.raises(ConfigError, match="context_length is 0"):
        compute_cost(load_shape(EXAMPLE), context_length=0)
    with pytest.raises(ConfigError, match="tokens is 0"):
        compute_cost(load_shape(EXAMPLE), tokens=0)
