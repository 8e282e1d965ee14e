"""A trained tokenizer has a token that ends documents, unless it is told otherwise; the doors of others do not."""

import json

import pytest

import tokenmill
from tokenmill.base import machine
from tokenmill.base.machine import GB, Memory
from tokenmill.cli import main
from tokenmill.compat import cs336, minbpe

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
    memory = Memory(85 * GB, 128 * GB, None, "free")
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


@pytest.mark.usefixtures("_much_memory")
def test_without_a_separator_prepare_warns(corpus, tmp_path, run, caplog):
    assert (
        run("train", corpus, "--vocab-size", 300, "-o", tmp_path / "tok", "--no-special", "--quiet")[0] == 0
    )
    assert tokenmill.Tokenizer.load(tmp_path / "tok").special_tokens == {}
    assert not {"eos_token", "pad_token"} & set(restore_config(tmp_path / "tok"))
    run("prepare", corpus, "--tokenizer", tmp_path / "tok", "--output", tmp_path / "data")
    (warning,) = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert warning.startswith("Nothing separates documents")


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


@pytest.mark.parametrize("none", [(), []])
def test_no_special_tokens_can_be_asked_for_in_python(none):
    assert tokenmill.train_from_iterator(TEXTS, 300, special_tokens=none, progress=False).special_tokens == {}


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


def test_it_is_one_of_the_tokens_of_the_size():
    with_end = tokenmill.train_from_iterator(TEXTS, 270, progress=False)
    without = tokenmill.train_from_iterator(TEXTS, 269, special_tokens=[], progress=False)
    assert (with_end.vocab_size, without.vocab_size) == (270, 269)
    assert list(with_end.recipe.model.tokens)[1:] == list(without.recipe.model.tokens)


def test_smaller_sizes_of_a_ladder_have_it_too(tmp_path):
    tokenmill.train_from_iterator(TEXTS, 280, output=tmp_path, ladder="260,270", progress=False)
    for size in (260, 270):
        smaller = tokenmill.Tokenizer.load(tmp_path / str(size))
        assert smaller.fingerprint == tokenmill.train_from_iterator(TEXTS, size, progress=False).fingerprint
        assert restore_config(tmp_path / str(size))["eos_token"] == END


def test_counts_without_it_say_how_to_go_on(tmp_path):
    counts = tmp_path / "counts.parquet"
    tokenmill.train_from_iterator(TEXTS, 300, special_tokens=[], save_counts=counts, progress=False)
    with pytest.raises(tokenmill.TokenmillError, match=r"train with the same ones \(--no-special\)"):
        tokenmill.train(vocab_size=300, counts=counts, progress=False)
    tokenmill.train(vocab_size=300, counts=counts, special_tokens=[], progress=False)
    tokenmill.train_from_iterator(TEXTS, 300, special_tokens=["<a b>"], save_counts=counts, progress=False)
    with pytest.raises(tokenmill.TokenmillError, match=r"--special-token '<a b>'"):
        tokenmill.train(vocab_size=300, counts=counts, progress=False)


def test_the_doors_of_others_have_what_others_have(tmp_path):
    for kind in (minbpe.BasicTokenizer, minbpe.RegexTokenizer):
        door = kind()
        door.train(" ".join(TEXTS), 260)
        assert (len(door.vocab), len(door.merges), door.special_tokens) == (260, 4, {})
    text = tmp_path / "corpus.txt"
    text.write_text(" ".join(TEXTS), encoding="utf-8")
    vocab, merges = cs336.train_bpe(text, 260, [])
    assert (len(vocab), len(merges)) == (260, 4)
    assert END.encode() not in vocab.values()
