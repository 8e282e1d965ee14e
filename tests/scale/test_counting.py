"""Counting by map and reduce gives the merges of one process, on threads and on a real Ray cluster."""

import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer
from tokenmill.errors import ConfigError
from tokenmill.pipeline import train
from tokenmill.pipeline.executors import LocalExecutor


class Elsewhere(LocalExecutor):
    """Threads that count as another machine."""

    in_process = False


def merges(tokenizer):
    return [tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)]


@pytest.fixture
def one_process(corpus):
    return tokenmill.train(
        [str(corpus / "part-*.jsonl")], 600, special_tokens=["<|endoftext|>"], progress=False
    )


def test_parts_on_threads_give_the_same_merges(corpus, one_process, monkeypatch):
    monkeypatch.setattr(train, "PART_BYTES", 1 << 16)
    monkeypatch.setattr(train, "choose_executor", lambda _: Elsewhere(2, 1 << 28))
    tokenizer = tokenmill.train(
        [str(corpus / "part-*.jsonl")],
        600,
        special_tokens=["<|endoftext|>"],
        progress=False,
    )
    assert merges(tokenizer) == merges(one_process)


@pytest.mark.ray
def test_ray_counting_gives_the_same_merges(cluster, corpus, one_process, tmp_path):
    tokenizer = tokenmill.train(
        [str(corpus / "part-*.jsonl")],
        600,
        special_tokens=["<|endoftext|>"],
        progress=False,
        output=tmp_path / "tok",
        executor="ray",
        ray_address=cluster.address,
    )
    assert merges(tokenizer) == merges(one_process)


def test_texts_in_memory_cannot_go_to_a_cluster(tmp_path):
    said = "data in memory cannot be read by other processes"
    with pytest.raises(ConfigError, match=said):
        tokenmill.train_from_iterator(["a b c"], 300, output=tmp_path / "tok", executor="ray", progress=False)
    with pytest.raises(ConfigError, match=said):
        tokenmill.prepare(
            dataset=["a b c"], tokenizer=ByteTokenizer(), output=str(tmp_path / "out"), executor="ray"
        )
