"""The doors of Stanford's CS336: signatures, tie rule and behaviour of its handout."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from tokenmill._core import spell
from tokenmill.compat.cs336 import Tokenizer, train_bpe
from tokenmill.errors import InputError

EOT = "<|endoftext|>"
TEXT = f"low low low low low\nlower lower widest widest widest newest newest{EOT}newest 안녕 newest\n" * 3


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_train_bpe_takes_the_greatest_pair(corpus):
    vocab, merges = train_bpe(corpus, 275, [EOT])
    assert merges == reference.train(reference.pieces_of([TEXT], [EOT]), 274, "lexicographic")
    assert len(vocab) == 275
    assert EOT.encode() in vocab.values()
    assert {bytes([byte]) for byte in range(256)} <= set(vocab.values())
    assert set(vocab) == set(range(275))


def test_encode_decode_and_iterables_agree(corpus):
    vocab, merges = train_bpe(str(corpus), 300, special_tokens=[EOT])
    tokenizer = Tokenizer(vocab, merges, [EOT, f"{EOT}{EOT}"])
    text = f"newest lower{EOT}{EOT}{EOT} widest 안녕🙂"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert [tokenizer.decode([i]) for i in ids].count(f"{EOT}{EOT}") == 1
    with corpus.open(encoding="utf-8") as file:
        assert list(tokenizer.encode_iterable(file)) == tokenizer.encode(TEXT)
    spelled = b"".join(tokenizer.vocab[i] for i in ids)
    assert spelled.decode() == text


@given(text=st.text(st.sampled_from("low erwidst안'\n1 "), max_size=40))
def test_ids_equal_the_naive_encoder(text):
    merges = reference.train(reference.pieces_of([TEXT], [EOT]), 290, "lexicographic")
    tokens = [*(bytes([byte]) for byte in range(256)), *(left + right for left, right in merges)]
    tokenizer = Tokenizer(dict(enumerate(tokens)), merges)
    assert [tokenizer.vocab[i] for i in tokenizer.encode(text)] == reference.encode(text, merges)


def test_from_files(tmp_path, corpus):
    vocab, merges = train_bpe(corpus, 270, [])
    names = {spell(token): token_id for token_id, token in vocab.items()}
    (tmp_path / "vocab.json").write_text(json.dumps(names), encoding="utf-8")
    lines = [f"{spell(left)} {spell(right)}" for left, right in merges]
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    tokenizer = Tokenizer.from_files(tmp_path / "vocab.json", tmp_path / "merges.txt", [EOT])
    assert tokenizer.vocab[270] == EOT.encode()
    assert tokenizer.encode(TEXT) == Tokenizer(vocab, merges, [EOT]).encode(TEXT)


def test_merges_outside_the_vocabulary_are_refused():
    with pytest.raises(InputError, match="not in the vocabulary"):
        Tokenizer({0: b"a", 1: b"b"}, [(b"a", b"zz")])


LIMITED = """
import resource, sys, psutil
from tokenmill.compat.cs336 import Tokenizer, train_bpe
path = sys.argv[1]
vocab, merges = train_bpe(path, 300, ["<|endoftext|>"])
tokenizer = Tokenizer(vocab, merges, ["<|endoftext|>"])
limits = resource.getrlimit(resource.RLIMIT_AS)

def limited(act):
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().rss + 1_000_000, -1))
    try:
        return act()
    except MemoryError:
        return "MemoryError"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)

def count():
    with open(path, encoding="utf-8") as file:
        return sum(1 for _ in tokenizer.encode_iterable(file))

text = open(path, encoding="utf-8").read()
print(limited(count) == len(tokenizer.encode(text)), limited(lambda: len(tokenizer.encode(text))))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is one of Linux")
def test_the_assignment_s_memory_limits(tmp_path):
    """With one more megabyte the iterable fits, and a text that does not is a MemoryError."""
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT * 20_000, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    iterable, whole = done.stdout.split()
    # A whole text may still find room in what Python gave back before.
    assert iterable == "True"
    assert whole == "MemoryError" or whole.isdecimal()


PEAK = """
import json, re, sys
from pathlib import Path
from tokenmill.compat.cs336 import train_bpe
vocab, merges = train_bpe(sys.argv[1], 300, ["<|endoftext|>"])
# ru_maxrss would include the memory of the process that started this one.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps([[token.hex() for token in vocab.values()], peak]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_file_of_more_than_two_gibibytes(tmp_path):
    """More than any record of a corpus may have: the same merges as of a part, and little memory."""
    path = tmp_path / "corpus.txt"
    part = (TEXT * 4000).encode()
    with path.open("wb") as file:
        for _ in range((2 << 30) // len(part) + 1):
            file.write(part)
    command = [sys.executable, "-c", PEAK, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    path.write_bytes(part)
    assert done.returncode == 0, done.stderr
    vocab, peak = json.loads(done.stdout)
    assert vocab == [token.hex() for token in train_bpe(path, 300, [EOT])[0].values()]
    assert peak < 400_000, "kilobytes"


def test_special_tokens_are_never_merged(tmp_path):
    path = tmp_path / "stories.txt"
    path.write_text((f"Once upon a time{EOT}\nThere was <| a cat{EOT}\n\n") * 500, encoding="utf-8")
    vocab, _ = train_bpe(path, 400, [EOT])
    assert all(b"<|end" not in token for token in vocab.values() if token != EOT.encode())


def test_the_assignment_s_texts_against_tiktoken():
    """GPT-2's vocabulary through this interface: white space next to special tokens, overlapping ones, other scripts."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))
    from vocabularies import GPT2, GPT2_MERGES, gpt2_hf, place

    tokenizer = Tokenizer.from_files(place(*GPT2), place(*GPT2_MERGES), [EOT, f"{EOT}{EOT}"])
    plain = gpt2_hf()
    for text in ("", "s", "🙃", "Hello, how are you?", "Héllò hôw are ü? 🙃", "Die Leute\n\n  sagen, daß"):
        assert tokenizer.encode(text) == plain.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text
    text = f"Hello, how {EOT}{EOT} are you?{EOT}\n\n"
    parts = [tokenizer.decode([i]) for i in tokenizer.encode(text)]
    assert (parts.count(EOT), parts.count(EOT + EOT), "".join(parts)) == (1, 1, text)
