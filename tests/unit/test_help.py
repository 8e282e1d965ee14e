"""Every command explains itself, and ends with examples of its own."""

import json
import re

import pytest

import tokenmill
from tokenmill.cli import COMMANDS, cli, main

SUBCOMMANDS = [("config", name) for name in cli.get_command(None, "config").commands]
# These do something and have no facts to tell, or (config) leave the telling to a subcommand.
SILENT = {("serve",), ("config",), ("config", "init"), ("config", "schema")}


def command_of(name, *rest):
    command = cli.get_command(None, name)
    return command.commands[rest[0]] if rest else command


@pytest.mark.parametrize("words", [*((name,) for name in COMMANDS), *SUBCOMMANDS], ids=" ".join)
def test_help_ends_with_examples(words, capsys):
    main([*words, "--help"])
    text = capsys.readouterr().out
    _, found, examples = text.partition("Examples:")
    assert found
    assert f"tokenmill {' '.join(words)}" in examples
    assert words in SILENT or "--json" in text


@pytest.mark.parametrize("words", [*((name,) for name in COMMANDS), *SUBCOMMANDS], ids=" ".join)
def test_examples_use_flags_that_exist(words):
    for line in command_of(*words).epilog.splitlines():
        for call in re.findall(r"tokenmill ([^|>)#]+)", line):
            names = re.findall(r"^[a-z-]+(?: (?:init|show|schema)\b)?", call)[0].split()
            known = {
                flag
                for option in command_of(*names).params
                for flag in (*option.opts, *option.secondary_opts)
            }
            assert known.issuperset(re.findall(r"(?<=\s)--?[a-z][a-z-]*", call)), line


@pytest.fixture
def dataset(tmp_path):
    texts = ["one small step", "two small steps", ""] * 5
    tokenmill.train(iter(texts), 280, special_tokens=["<|endoftext|>"], progress=False).save(tmp_path / "tok")
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
    assert "two small steps" in shown
    assert "texts.jsonl, row 1" in shown


def test_a_document_that_is_not_there(dataset, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["inspect", str(dataset), "--doc", "99"])
    assert stop.value.code == 1
    assert "document 99 is outside of 0..9" in capsys.readouterr().err
