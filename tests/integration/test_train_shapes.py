"""Corpora of hard shapes finish, exactly and within their memory: no breaks, one character, only rare words."""

import json
import random
import subprocess
import sys

import pytest

import reference
import tokenmill
from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.errors import InputError
from tokenmill.settings.schema import SourceConfig, TrainingConfig
from tokenmill.training import counting as inputs
from tokenmill.training.counting import Counting, open_corpus
from tokenmill.training.merging import train_merges

FAMILIES = [family.name for family in _core.families()]


def pairs(merged):
    return [(merged.tokens[left], merged.tokens[right]) for left, right in merged.merges]


def test_one_repeated_character_doubles():
    merged = train_merges(iter(["a" * (1 << 20)]), TrainingConfig(vocab_size=276, special_tokens=()))
    assert [len(left + right) for left, right in pairs(merged)] == [1 << power for power in range(1, 21)]
    assert merged.counts.tolist() == [(1 << (20 - power)) - 1 for power in range(20)]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 37, 100, 1023])
def test_runs_equal_the_reference(length):
    texts = ["=" * length, " " * (length + 2) + "x", "ab" * length]
    merged = train_merges(iter(texts), TrainingConfig(vocab_size=290, special_tokens=()))
    assert pairs(merged) == reference.train(reference.pieces_of(texts), 290)


def test_long_unbroken_chinese():
    random.seed(1)
    characters = [chr(0x4E00 + random.randrange(300)) for _ in range(1500)]
    text = "".join(characters)
    merged = train_merges(iter([text]), TrainingConfig(vocab_size=400, special_tokens=()))
    assert pairs(merged) == reference.train(reference.pieces_of([text]), 400)
    long = "".join(chr(0x4E00 + min(int(random.expovariate(0.01)), 2999)) for _ in range(700_000))
    merged = train_merges(iter([long]), TrainingConfig(vocab_size=5000, special_tokens=()), threads=2)
    assert len(merged.merges) == 5000 - 256


def test_a_long_text_is_shared_by_threads_without_a_change():
    random.seed(2)
    words = ["one", "둘", "三", "four,", "5", "\n", "'s", "\u3000", "x\u00a0y"]
    text = "".join(random.choice(words) + random.choice(["", " "]) for _ in range(900_000))
    one = train_merges(iter([text]), TrainingConfig(vocab_size=350, special_tokens=()), threads=1)
    three = train_merges(iter([text]), TrainingConfig(vocab_size=350, special_tokens=()), threads=3)
    assert one.merges == three.merges
    assert one.counts.tolist() == three.counts.tolist()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_million_unique_words_stay_within_memory(tmp_path):
    code = """
import json, pathlib, sys, tempfile, tokenmill
from tokenmill.pipeline.train import run
from tokenmill.settings.resolve import from_options
letters = str.maketrans("0123456789", "ghijklmnop")  # or the pattern would cut between digits and letters
texts = (
    " ".join(f"{i * 2654435761 % 2**40:x}" for i in range(s, s + 20000)).translate(letters)
    for s in range(0, 10_000_000, 20000)
)
resolved = from_options(job="train", vocab_size=2000, memory_budget=512 << 20, spill_dir=sys.argv[1])
summary = run(resolved, texts, progress=False).summary
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({**summary, "peak": int(peak.split()[1]) * 1024}))
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["unique"] >= 10_000_000
    assert told["spilled_bytes"] > 0
    assert told["vocab_size"] == 2000
    # Counting keeps to its budget; merging needs ten bytes for each byte of the distinct pieces.
    assert told["peak"] < 2.2e9
    assert not list(tmp_path.iterdir())


ODD = "It's 42  words,\n\n 한국어 문장입니다. a b<x y>c d\n中文 没有\u3000空格。\n x\u00a0y 7 \t\nEnd's  e\u0301 "


@pytest.mark.parametrize("pattern", [*FAMILIES, r"\w+|\s+|[^\w\s]+"])
@pytest.mark.parametrize("special", [(), ("b<x y>c", " words"), ("y>c d\n中文 没",)])
def test_a_text_file_in_parts_has_the_counts_of_the_whole(tmp_path, monkeypatch, pattern, special):
    path = tmp_path / "a.txt"
    path.write_text("\ufeff" + ODD * 40 + "without_any_place" * 50 + ODD, encoding="utf-8")
    options = TrainingConfig(vocab_size=300, pattern=pattern, special_tokens=special)

    def count(size, *, parts):
        monkeypatch.setattr(inputs, "BLOCK_BYTES", size)
        counting = Counting(options, threads=1, memory_budget=1 << 30, spill_dir=str(tmp_path))
        with open_corpus(path, SourceConfig(txt_mode="file")) as corpus:
            blocks = list(corpus.read_blocks(parts=parts))
            assert (len(blocks) > 1) == parts
            for block in blocks:
                counting.count(counting.admit(block))
        counted = counting.finish()
        data, offsets, counts = counted.counts.batch(0)
        pieces = Texts(data, offsets)
        return counted.figures(), {pieces[i]: int(counts[i]) for i in range(len(counts))}

    whole = count(1 << 20, parts=False)
    assert whole[0]["documents"] == 1
    for size in (64, 201, 1000):
        assert count(size, parts=True) == whole


def test_bad_text_in_a_part_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 100)
    (tmp_path / "a.txt").write_bytes(b"good words " * 200 + b"b\xffd" + b" more words" * 200)
    options = {"txt_mode": "file", "progress": False}
    with pytest.raises(InputError, match=r"a\.txt:1:2201: bytes that are not UTF-8"):
        tokenmill.train(tmp_path / "a.txt", 260, **options)
    tokenmill.train(tmp_path / "a.txt", 260, on_error="replace", **options)
