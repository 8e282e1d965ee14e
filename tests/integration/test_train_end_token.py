"""A trained tokenizer has a token that ends documents, unless disabled; the interfaces of other libraries do not."""

import json

import pytest

import tokenmill
from tokenmill.base import machine
from tokenmill.base.machine import GB, Memory
from tokenmill.cli import main

TEXTS = ["low lower lowest", "newer wider", "the lowest of the low"] * 20
END = "<|endoftext|>"


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    return path


@pytest.fixture
def _much_memory(monkeypatch):
    """`prepare` also warns where little memory is free, which other processes may have taken."""
    memory = Memory(85 * GB, "free")
    monkeypatch.setattr(machine, "measure_memory", lambda limits=None: memory)


@pytest.fixture
def run(capfd):
    def call(*arguments):
        """The exit code of a command, and what it printed."""
        capfd.readouterr()
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
        return code, "".join(capfd.readouterr())

    return call


def restore_config(folder):
    return json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))


@pytest.mark.usefixtures("_much_memory")
def test_the_two_commands_of_the_readme_write_separators_and_warn_of_nothing(corpus, tmp_path, run, caplog):
    assert run("train", corpus, "--vocab-size", 300, "-o", tmp_path / "tok", "--quiet")[0] == 0
    code, told = run("prepare", corpus, "--tokenizer", tmp_path / "tok", "--output", tmp_path / "data")
    assert code == 0, told
    assert not [each.message for each in caplog.records if each.levelname == "WARNING"]
    dataset = tokenmill.open(tmp_path / "data")
    end = tokenmill.Tokenizer.load(tmp_path / "tok").special_tokens[END]
    assert [list(ids).count(end) for ids in dataset] == [1] * len(TEXTS)
    assert all(ids[-1] == end for ids in dataset)


@pytest.mark.parametrize("save_as", ["hf", "vocab-merges"])
def test_transformers_knows_the_end_and_the_padding(corpus, tmp_path, save_as):
    auto = pytest.importorskip("transformers").AutoTokenizer
    tokenmill.train(corpus, 300, output=tmp_path / "tok", save_as=save_as, progress=False)
    theirs = auto.from_pretrained(tmp_path / "tok")
    assert (theirs.eos_token, theirs.pad_token) == (END, END)
    assert (theirs.eos_token_id, theirs.pad_token_id) == (0, 0)
    ours = tokenmill.train(corpus, 300, progress=False)
    assert theirs("the lowest")["input_ids"] == ours.encode("the lowest")
    assert ours.as_hf().eos_token == ours.as_hf().pad_token == END


@pytest.mark.parametrize(
    ("special", "roles"),
    [
        (["<s>", "</s>"], {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}),
        ([END, "<pad>"], {"eos_token": END, "pad_token": "<pad>"}),
        (["<|im_start|>"], {}),
    ],
)
def test_special_tokens_that_are_given_take_its_place_and_their_roles(tmp_path, special, roles):
    made = tokenmill.train_from_iterator(TEXTS, 300, special_tokens=special, output=tmp_path, progress=False)
    assert made.special_tokens == {token: place for place, token in enumerate(special)}
    config = restore_config(tmp_path)
    assert {name: config[name] for name in config if name.endswith("_token")} == roles


def test_no_special_tokens_can_be_asked_for_in_yaml(corpus, tmp_path, run):
    job = tmp_path / "job.yaml"
    job.write_text("training:\n  vocab_size: 300\n  special_tokens: []\n", encoding="utf-8")
    assert run("train", corpus, "--config", job, "-o", tmp_path / "tok", "--quiet")[0] == 0
    assert tokenmill.Tokenizer.load(tmp_path / "tok").special_tokens == {}
    # A flag counts more than the file.
    assert run("train", corpus, "--config", job, "-o", tmp_path / "b", "--special-token", END)[0] == 0
    assert tokenmill.Tokenizer.load(tmp_path / "b").special_tokens == {END: 0}


def test_none_and_some_contradict(corpus, tmp_path, run):
    code, told = run("train", corpus, "-o", tmp_path / "tok", "--no-special", "--special-token", END)
    assert code == 2
    assert "--no-special and --special-token are both given" in told


def test_counts_without_it_say_how_to_go_on(tmp_path):
    counts = tmp_path / "counts.parquet"
    tokenmill.train_from_iterator(TEXTS, 300, special_tokens=[], save_counts=counts, progress=False)
    with pytest.raises(tokenmill.TokenmillError, match="train with the same `special_tokens`"):
        tokenmill.train(vocab_size=300, counts=counts, progress=False)
    tokenmill.train(vocab_size=300, counts=counts, special_tokens=[], progress=False)
    tokenmill.train_from_iterator(TEXTS, 300, special_tokens=["<a b>"], save_counts=counts, progress=False)
    with pytest.raises(tokenmill.TokenmillError, match=r"'<a b>'.*`special_tokens`"):
        tokenmill.train(vocab_size=300, counts=counts, progress=False)
