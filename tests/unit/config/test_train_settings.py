"""Training has the same layers of settings as preparing, and one file can hold both."""

import pytest

from tokenmill.errors import ConfigError
from tokenmill.settings.resolve import from_options, list_bare_names, resolve

FILE = """\
training:
  vocab_size: 300
  pattern: cl100k
  special_tokens: ["<|endoftext|>"]
tokenizer:
  pattern: o200k
  num_proc: 3
source:
  counts: counts.parquet
"""


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_a_name_that_both_jobs_have_is_the_jobs_own(job):
    assert resolve(job, {"pattern": "gpt2"}, {}, job="train").config.training.pattern == "gpt2"
    assert resolve(job, {"pattern": "gpt2"}, {}, job="prepare").config.tokenizer.pattern == "gpt2"
    environ = {"TOKENMILL_SPECIAL_TOKENS": "<|a|>,<|b|>"}
    assert resolve(environ=environ, job="train").config.training.special_tokens == ("<|a|>", "<|b|>")
    assert list_bare_names("train")["format"] == "source.format"
    assert list_bare_names("prepare")["format"] == "output.format"


@pytest.mark.parametrize(
    ("name", "job", "other"), [("vocab_size", "prepare", "train"), ("context_length", "train", "prepare")]
)
def test_a_setting_of_the_other_job_is_refused_and_says_whose_it_is(name, job, other):
    with pytest.raises(ConfigError, match=f"^{name}=: [a-z.]+{name} is a setting of `tokenmill {other}`"):
        from_options(job=job, environ={}, **{name: 300})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vocabsize", "Did you mean 'vocab_size'?"),
        ("data", r"Did you mean 'inputs' \(files\) or 'dataset' \(data in memory\)\?"),
        ("zzz", "Known here: .*vocab_size"),
    ],
)
def test_an_unknown_option_names_the_nearest(name, words):
    with pytest.raises(ConfigError, match=words):
        from_options(job="train", environ={}, **{name: 300})


def test_paths_and_weights_are_names(tmp_path):
    options = {"counts": [(tmp_path / "a.parquet", 2), tmp_path / "b.parquet"], "save_as": "all"}
    config = from_options(job="train", environ={}, **options).config
    assert config.source.counts == (f"{tmp_path}/a.parquet:2", f"{tmp_path}/b.parquet")
    assert config.output.save_as == ("all",)
