"""Inputs that are not plain files, circular links, outputs among the inputs: an error message, never a hang."""

import os
import socket
from pathlib import Path

import pytest

import tokenmill
from small_tokenizers import write_bpe
from tokenmill.errors import ConfigError, InputError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import discover

LINE = '{"text": "some words of a document"}\n'


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.jsonl").write_text(LINE * 20)
    return folder


def prepare(inputs, tmp_path, output="out", **options):
    options = {"verbose_level": "ERROR", "show_progress": False} | options
    tokenizer = write_bpe(tmp_path / "tok")
    return tokenmill.prepare(inputs, str(tokenizer), str(tmp_path / output), **options)


def list_names(*inputs, output=None):
    found = discover(SourceConfig(inputs=tuple(map(str, inputs))), output)
    return [Path(file.url).name for file in found]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes with names")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("way", ["named", "folder", "pattern"])
def test_a_pipe_is_refused_and_not_waited_for(corpus, tmp_path, way):
    os.mkfifo(corpus / "pipe.jsonl")
    inputs = {"named": corpus / "pipe.jsonl", "folder": corpus, "pattern": corpus / "*.jsonl"}[way]
    with pytest.raises(InputError, match=r"pipe\.jsonl.*a pipe, a socket or a device: write it to a file"):
        prepare(str(inputs), tmp_path)
    with pytest.raises(InputError, match=r"write it to a file"):
        tokenmill.train(str(inputs), 260, progress=False)
    kept = prepare(str(inputs), tmp_path, "skipped", on_error="skip")
    assert kept.manifest.documents == (0 if way == "named" else 20)
    assert kept.manifest.account.rejected["unreadable"] == 1


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="has no such device")
@pytest.mark.timeout(60)
def test_a_device_and_a_socket_are_refused(corpus, tmp_path):
    with pytest.raises(InputError, match=r"/dev/zero.*a device"):
        prepare("/dev/zero", tmp_path)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(corpus / "socket.jsonl"))
        with pytest.raises(InputError, match=r"socket\.jsonl"):
            prepare(str(corpus), tmp_path)


def test_a_link_to_itself_says_so(corpus):
    (corpus / "me.jsonl").symlink_to(corpus / "me.jsonl")
    with pytest.raises(InputError, match=r"me\.jsonl: .*leads back to itself"):
        discover(SourceConfig(inputs=(str(corpus),)))


def test_links_to_folders_are_followed_once(corpus, tmp_path):
    other = tmp_path / "other"
    (other / "deep").mkdir(parents=True)
    (other / "deep" / "b.jsonl").write_text(LINE)
    (corpus / "linked").symlink_to(other)
    (corpus / "again").symlink_to(other)
    (corpus / "same").symlink_to(corpus)
    (other / "deep" / "back").symlink_to(corpus)
    assert list_names(corpus) == ["a.jsonl", "b.jsonl"]
    assert sorted(list_names(corpus / "**" / "*.jsonl")) == ["a.jsonl", "b.jsonl"]


@pytest.mark.parametrize("form", ["tokenmill", "parquet"])
def test_an_output_below_the_inputs_is_not_read_again(corpus, tmp_path, form):
    for _ in range(2):
        made = prepare(str(corpus), tmp_path, "corpus/out", format=form)
        assert made.manifest.documents == 20
        assert list_names(corpus, output=str(corpus / "out")) == ["a.jsonl"]
        assert list_names(corpus / "**", output=str(corpus / "out")) == ["a.jsonl"]
    for _ in range(2):
        tokenizer = tokenmill.train(
            str(corpus / "*"), 270, output=str(corpus / "tok"), save_as="all", progress=False
        )
    alone = tokenmill.train(str(corpus / "a.jsonl"), 270, progress=False)
    assert tokenizer.fingerprint == alone.fingerprint


def test_an_output_that_is_the_folder_of_the_inputs_is_refused(corpus, tmp_path):
    with pytest.raises(ConfigError, match=r"both an input and the output"):
        prepare(str(corpus), tmp_path, "corpus")
    assert [path.name for path in corpus.iterdir()] == ["a.jsonl"]


def test_deep_json_without_a_known_name_is_a_bad_record(tmp_path):
    (tmp_path / "deep").write_text('{"text":' * 100_000 + "\n" + LINE)
    with pytest.raises(InputError):
        prepare(str(tmp_path / "deep"), tmp_path)


@pytest.mark.parametrize("texts", [[], [""]])
def test_a_training_without_text_is_an_error(texts):
    with pytest.raises(InputError, match=r"no text to train on"):
        tokenmill.train_from_iterator(texts, 300, progress=False)


@pytest.mark.parametrize("texts", ["a text", {"a": 1}, {"a", "b"}])
def test_what_is_no_list_of_texts_is_refused(texts):
    tokenizer = tokenmill.train_from_iterator(["some words"] * 9, 260, progress=False)
    for call in (tokenizer.encode_lists, tokenizer.encode_batch, tokenizer.count_batch):
        with pytest.raises(TypeError, match=r"expected a list of texts"):
            call(texts)
