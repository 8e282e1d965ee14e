"""Every command explains itself, and ends with examples of its own."""

import json
import re

import click
import pytest

import tokenmill
from tokenmill.cli import COMMANDS, cli, main

CONTEXT = click.Context(cli)
GROUPS = {"config", "tokenizer", "dataset"}
# These do something and have no facts to tell, or one line of them.
SILENT = {("serve",), ("config", "init"), ("config", "env"), ("quickstart",)}
SILENT |= {
    ("dataset", name) for name in ("push", "blend", "report", "convert", "transcode", "remove", "rebuild")
}


def command_of(*words):
    command = cli
    for word in words:
        command = command.get_command(CONTEXT, word)
    return command


WORDS = [(name,) for name in COMMANDS[""] if name not in GROUPS]
WORDS += [(group, name) for group in sorted(GROUPS) for name in command_of(group).list_commands(CONTEXT)]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_help_ends_with_examples(words, capsys):
    main([*words, "--help"])
    text = capsys.readouterr().out
    _, found, examples = text.partition("Examples:")
    assert found
    assert f"tokenmill {' '.join(words)}" in examples
    assert words in SILENT or "--json" in text


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_flags_may_be_written_with_underscores(words, capsys):
    flags = [flag for option in command_of(*words).params for flag in option.opts if "-" in flag[2:]]
    for flag in flags:
        with pytest.raises(SystemExit) as stop:
            main([*words, "--" + flag[2:].replace("-", "_")])
        assert stop.value.code == 2
        assert "No such option" not in capsys.readouterr().err


ESSENTIAL = {
    "prepare": ("--tokenizer", "--output", "--format", "--context-length", "--text-field", "--config"),
    "train": ("--vocab-size", "--pattern", "--special-token", "--output", "--text-field", "--config"),
}


@pytest.mark.parametrize("job", ESSENTIAL)
def test_short_help_begins_with_what_everybody_needs(job, capsys):
    main([job, "--help"])
    shown = capsys.readouterr().out
    options, *groups = re.split(r"^([A-Z]\w+):\n", shown.partition("Options:\n")[2], flags=re.MULTILINE)
    assert set(ESSENTIAL[job]) <= set(re.findall(r"--[a-z-]+", options))
    assert {"Output", "Source", "Execution"} <= set(groups)
    assert f"tokenmill {job} --help-all" in shown
    assert "INPUTS" not in options
    rare = "--max-record-bytes"
    assert rare not in shown
    main([job, "--help-all"])
    assert rare in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "meant"), [(["prepar"], "prepare"), (["dataset", "reprt"], "report"), (["xyz"], None)]
)
def test_a_command_that_is_none_names_the_nearest(words, meant, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert f"No such command '{words[-1]}'." in said
    assert ("Did you mean" in said) == (meant is not None)
    assert meant is None or f"Did you mean '{meant}'?" in said


@pytest.fixture
def dataset(tmp_path):
    texts = ["one small step", "two small steps\x1b[2J", ""] * 5
    tokenmill.train_from_iterator(texts, 280, special_tokens=["<|endoftext|>"], progress=False).save(
        tmp_path / "tok"
    )
    source = tmp_path / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    tokenmill.prepare(
        inputs=[str(source)], tokenizer=str(tmp_path / "tok"), output=str(tmp_path / "out"), provenance=True
    )
    return tmp_path / "out"


def test_a_dataset_and_a_document_of_it(dataset, capsys):
    capsys.readouterr()
    main(["inspect", str(dataset)])
    shown = capsys.readouterr().out
    assert "15 read = 10 written + 5 dropped (blank 5)" in shown
    assert all(word in shown for word in ("format", "tokenizer", "packing", "EOS 0"))
    main(["inspect", str(dataset), "--doc", "1"])
    shown = capsys.readouterr().out
    assert "two small steps\\x1b[2J" in shown
    assert "\x1b" not in shown
    assert "texts.jsonl, row 1" in shown


def test_a_document_that_is_not_there(dataset, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["inspect", str(dataset), "--doc", "99"])
    assert stop.value.code == 1
    assert "there is no document 99" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["train", "--min_freq_threshold", "2"], "--min-piece-frequency"),
        (["prepare", "--seq_length", "2"], "--context-length"),
        (["verify_optimization.py", "--tokenizer_path", "tok"], "Did you mean 'doctor'?"),
        (["scripts/train_tokenizer.py"], "Did you mean 'train'?"),
        (["prepare.py"], "Did you mean 'prepare'?"),
        (["prepare", "x.txt", "--validation", "0"], "expected a share above 0, e.g. 0.5%"),
    ],
)
def test_words_of_other_tools_are_answered_with_ours(words, answer, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert answer in capsys.readouterr().err


def test_the_flags_of_training_scripts(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "low lower lowest " * 40}) + "\n")
    data, tokenizer, output = (str(tmp_path / name) for name in ("a.jsonl", "tokenizer", "out"))
    main(["train", "--dataset", data, "--vocab_size", "0.3k", "--output_dir", tokenizer, "--quiet"])
    words = ["--dataset", data, "--tokenizer_path", tokenizer, "--output_dir", output]
    main(["prepare", *words, "--context_length", "8", "--num_proc", "2", "--packing"])
    made = tokenmill.open(output)
    assert made.manifest.packing.mode == "concat"
    assert tokenmill.Tokenizer.load(tokenizer).vocab_size <= 300
    assert tokenmill.Tokenizer.load(tokenizer).is_fast
