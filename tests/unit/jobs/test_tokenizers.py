"""A tokenizer that is loaded while the command still imports."""

import pytest
from click.testing import CliRunner

from small_tokenizers import write_bpe
from tokenmill.cli.prepare import command
from tokenmill.errors import TokenizerError
from tokenmill.pipeline.tokenizers import begin_loading, load_tokenizer
from tokenmill.settings.schema import JobConfig


def config(name, **settings):
    return JobConfig.from_dict({"tokenizer": {"tokenizer_name": name, **settings}})


def test_files_are_read_beside_the_main_thread(tmp_path):
    asked = config(str(write_bpe(tmp_path / "bpe")))
    begun = begin_loading(asked)
    assert begun is not None
    assert load_tokenizer(asked, begun).fingerprint == load_tokenizer(asked).fingerprint


@pytest.mark.parametrize(
    "settings", [{"name": None}, {"name": "org/name"}, {"name": ".", "strategy": "slow"}], ids=str
)
def test_anything_else_waits_for_its_turn(settings):
    assert begin_loading(config(settings.pop("name"), **settings)) is None


def test_a_python_tokenizer_waits_as_well(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert begin_loading(config(str(tmp_path))) is None


def test_an_error_is_told_where_it_always_was(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    asked = config(str(tmp_path))
    with pytest.raises(TokenizerError, match="not valid JSON"):
        load_tokenizer(asked, begin_loading(asked))
    missing = ["missing.jsonl", "--tokenizer", str(tmp_path), "--output", str(tmp_path / "out")]
    told = CliRunner().invoke(command, missing)
    assert "missing.jsonl" in str(told.exception)
