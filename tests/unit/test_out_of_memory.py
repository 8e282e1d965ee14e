"""Where the system refuses memory, a call raises `MemoryError` and a command says so: the process is never aborted."""

import json
import signal
import subprocess
import sys

import pytest

import tokenmill

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")

CHILD = """
import resource, sys
import numpy, pyarrow
import tokenmill
tokenizer = tokenmill.Tokenizer.load(sys.argv[1])
text = "The quick brown fox, 12 times; 한국어 문장. " * 400_000
docs = [text[at:at + 4000] for at in range(0, len(text), 4000)]
tokenmill.train(iter(docs[:9]), 300, progress=False)  # imports what it needs
for _ in range(2):
    tokenizer.encode_batch(docs[:300])
    tokenizer.encode(text[:400_000])
work = {
    "encode": lambda: tokenizer.encode(text),
    "encode_batch": lambda: tokenizer.encode_batch(docs),
    "to_lists": lambda: tokenizer.encode_batch(docs).to_lists(),
    "count": lambda: tokenizer.count(text),
    "offsets": lambda: tokenizer.offsets(text),
    "decode": lambda: tokenizer.decode(tokenizer.encode(text)),
    "train": lambda: tokenmill.train(iter(docs), 600, progress=False),
}[sys.argv[2]]
used = int(open("/proc/self/statm").read().split()[0]) * 4096
limit = used + (int(sys.argv[3]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, -1))
try:
    work()
except MemoryError:
    print("refused")
else:
    print("done")
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
assert tokenizer.decode(tokenizer.encode(text[:1000])) == text[:1000], "the next call is right again"
print("and well")
"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    texts = ["The quick brown fox, 12 times; 한국어 문장. "] * 9
    tokenmill.train(iter(texts), 300, progress=False).save(path)
    return path


@pytest.mark.parametrize(
    "work", ["encode", "encode_batch", "to_lists", "count", "offsets", "decode", "train"]
)
def test_a_refusal_is_a_memory_error(tokenizer, work):
    said = []
    for megabytes in (4, 10, 24, 60):
        command = [sys.executable, "-c", CHILD, str(tokenizer), work, str(megabytes)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (megabytes, done.returncode, done.stderr[-2000:])
        first, last = done.stdout.split("\n")[:2]
        assert last == "and well"
        said.append(first)
    # What little the others need may still be had from what was freed before.
    assert "refused" in said or work in {"encode_batch", "to_lists", "count", "train"}


def run(arguments, limit):
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2); "
        "sys.argv = ['tokenmill', *sys.argv[2:]]; from tokenmill.cli import main; main()"
    )
    command = [sys.executable, "-c", code, str(limit), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize("command", ["train", "prepare"])
def test_a_command_says_so(tokenizer, tmp_path, command):
    path = tmp_path / "a.jsonl"
    path.write_text((json.dumps({"text": "The quick brown fox, 12 times. " * 100}) + "\n") * 3000)
    clear = 0
    for turn, limit in enumerate((100, 150, 200, 300, 400, 600)):
        output = tmp_path / f"{command}-{turn}"
        arguments = {
            "train": ["train", path, "--vocab-size", 400, "--output", output],
            "prepare": ["prepare", path, "--tokenizer", tokenizer, "--output", output],
        }[command]
        done = run(arguments, limit << 20)
        assert done.returncode >= 0, (limit, done.returncode, done.stderr[-1000:])
        assert done.returncode == 0 or "memory" in done.stderr, (limit, done.stderr[-2000:])
        assert "Traceback" not in done.stderr, (limit, done.stderr[-2000:])
        clear += done.returncode != 0
    assert clear


def test_an_abort_of_a_library_is_a_sentence_and_an_exit_code():
    code = "import os, tokenmill.cli as c; c.cli.main = lambda **_: os.abort(); c.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 != -signal.SIGABRT
    assert done.stderr.startswith("tokenmill: A library aborted the process")


SHRINKS = """
import sys, numpy, tokenmill.cli as command

def read_what_shrinks(**_):
    open(sys.argv[1], "wb").write(bytes(1 << 16))
    data = numpy.memmap(sys.argv[1], mode="r")
    open(sys.argv[1], "wb").close()
    data.sum()

command.cli.main = read_what_shrinks
command.main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere SIGBUS has other meanings too")
def test_a_mapped_file_that_shrinks_is_a_sentence_and_an_exit_code(tmp_path):
    command = [sys.executable, "-c", SHRINKS, tmp_path / "file"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 != -signal.SIGBUS
    assert done.stderr.startswith("tokenmill: A file that was being read became shorter")


NO_THREADS = """
import resource, sys, threading
import numpy, pyarrow
import tokenmill
from tokenmill.base.prefetch import prefetch
tokenizer, corpus, output, what = sys.argv[1:]
quiet = {"verbose_level": "ERROR"}
work = {
    "prefetch": lambda turn: list(prefetch(iter("abc"))),
    "count": lambda turn: tokenmill.train(corpus, 300, threads=2, progress=False, **quiet),
    "train": lambda turn: tokenmill.train(corpus, 300, output=output + turn, progress=False, **quiet),
    "prepare": lambda turn: tokenmill.prepare(
        corpus, tokenizer, output + turn, threads=2, unit_bytes=2000, **quiet
    ),
}[what]
work("-before")  # imports what it needs
used = int(open("/proc/self/statm").read().split()[0]) * 4096
threading.stack_size(1 << 30)
resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20), -1))
try:
    work("-refused")
except MemoryError as error:
    print(error)
threading.stack_size(0)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
work("-refused")
print("and well")
"""


@pytest.mark.parametrize("what", ["prefetch", "count", "train", "prepare"])
def test_no_memory_for_a_thread_is_a_memory_error_in_python_too(tokenizer, tmp_path, what):
    corpus = tmp_path / "a.jsonl"
    corpus.write_text((json.dumps({"text": "The quick brown fox, 12 times."}) + "\n") * 300)
    command = [sys.executable, "-c", NO_THREADS, str(tokenizer), str(corpus), str(tmp_path / "out"), what]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "can't start new thread\nand well\n", done.stderr[-3000:]
