"""Every refused setting names the key, the file and line, and the way out."""

import pytest

from tokenmill.errors import EXIT_USAGE, ConfigError
from tokenmill.settings.resolve import resolve

CASES = {
    "unknown key": ("tokenizer:\n  bach_size: 3\n", 2, "Did you mean 'batch_size'"),
    "unknown section": ("tokeniser:\n  batch_size: 3\n", 1, "Did you mean 'tokenizer'"),
    "key without section": ("batch_size: 3\n", 1, "belongs in the section execution"),
    "wrong type": ("tokenizer:\n  batch_size: many\n", 2, "expected whole number > 0, found 'many'"),
    "number in quotes": ("tokenizer:\n  batch_size: '8'\n", 2, "expected whole number"),
    "true as a number": ("tokenizer:\n  num_proc: true\n", 2, "expected whole number"),
    "text as a switch": ("execution:\n  show_progress: maybe\n", 2, "expected true or false"),
    "number as text": ("tokenizer:\n  tokenizer_name: 7\n", 2, "expected text"),
    "out of range": ("tokenizer:\n  batch_size: 0\n", 2, "number > 0"),
    "negative overlap": ("tokenizer:\n  overlap: -1\n", 2, "number ≥ 0"),
    "no such choice": ("\noutput:\n  format: jpeg\n", 3, "or tokenmill"),
    "no such size": ("execution:\n  memory_budget: lots\n", 2, "512MiB"),
    "bad item": ("source:\n  inputs: [a, 3]\n", 2, "expected list of text, found ['a', 3]"),
    "overlap too large": ("tokenizer:\n  context_length: 8\n  overlap: 8\n", 3, "not below context_length 8"),
    "overlap alone": ("tokenizer:\n  overlap: 8\n", 2, "needs a `context_length`"),
    "overlap without windows": (
        "packing: {mode: bestfit, context_length: 8, overlap: 2}\n",
        1,
        "mode window",
    ),
    "rows without length": ("packing:\n  mode: concat\n", 2, "needs a `context_length`"),
    "empty range": ("filter:\n  max_chars: 3\n  min_chars: 4\n", 3, "every document would be left out"),
    "given twice": ("tokenizer:\n  batch_size: 3\n  batch_size: 3\n", 3, "given twice"),
    "said differently": ("tokenizer:\n  num_proc: 3\nexecution:\n  num_proc: 4\n", 4, "keep one"),
    "a list": ("- a\n", 1, "found a list"),
    "a scalar section": ("tokenizer: 3\n", 1, "section tokenizer"),
    "a tab": ("tokenizer:\n\tbatch_size: 3\n", 2, "spaces instead of tabs"),
    "not a number": ("training:\n  held_out: .nan\n", 2, "expected number"),
    "an empty name": ("output:\n  path: ''\n", 2, "a name is empty"),
    "an empty predicate": ("filter:\n  where: ''\n", 2, "would keep everything"),
    "an empty input": ("source:\n  inputs: [a, '']\n", 2, "a name is empty"),
    "a null character": ('output:\n  path: "a\\0b"\n', 2, "has a null character"),
    "an endless row": (f"packing:\n  context_length: {10**30}\n", 2, "expected at most"),
    "no colon": ("tokenizer:\n  batch_size: 3\n  num_proc\n", 4, "not valid YAML"),
}


@pytest.mark.parametrize(("text", "line", "words"), CASES.values(), ids=CASES.keys())
def test_refused_with_file_and_line(tmp_path, text, line, words):
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        resolve(path, environ={})
    message = str(refused.value)
    assert message.startswith(f"{path}:{line}: ")
    assert words in message
    assert refused.value.exit_code == EXIT_USAGE


def test_no_file_says_how_to_write_one(tmp_path):
    with pytest.raises(ConfigError, match="tokenmill config init"):
        resolve(tmp_path / "missing.yaml", environ={})


def test_not_utf8(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_bytes(b"tokenizer:\n  tokenizer_name: \xff\n")
    with pytest.raises(ConfigError, match=r"as UTF-8 text: .* position 29"):
        resolve(path, environ={})


@pytest.mark.parametrize("value", ["9" * 5000, "!!int abc", "!!bool abc", "a\x01", "&a [*a]"])
def test_yaml_without_a_value_names_the_file(tmp_path, value):
    path = tmp_path / "job.yaml"
    path.write_text(f"source:\n  inputs: {value}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"job.yaml.*: not valid YAML: "):
        resolve(path, environ={})


def test_empty_files_and_null_are_automatic(tmp_path):
    path = tmp_path / "job.yaml"
    for text in ("", "# nothing\n", "tokenizer:\n", "tokenizer:\n  num_proc: null\n  show_progress: ~\n"):
        path.write_text(text, encoding="utf-8")
        assert resolve(path, environ={}).config == resolve(environ={}).config


def test_bad_variables_and_flags_name_themselves():
    with pytest.raises(ConfigError, match=r"DATASET_NUM_PROC=lots: execution.num_proc: expected whole"):
        resolve(environ={"DATASET_NUM_PROC": "lots"})
    with pytest.raises(ConfigError, match=r"TOKENIZERS_PARALLELISM=perhaps"):
        resolve(environ={"TOKENIZERS_PARALLELISM": "perhaps"})
    with pytest.raises(ConfigError, match=r"^--overlap: overlap 9 is not below"):
        resolve(flags={"context_length": 8, "overlap": 9}, environ={})


def test_anchors_and_merges_keep_their_lines(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(
        "tokenizer: &shared\n  batch_size: 5\nexecution:\n  <<: *shared\n  threads: none\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match=r"job.yaml:5: execution.threads: expected whole number"):
        resolve(path, environ={})
