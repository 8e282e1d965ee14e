"""Tables of large vocabularies are kept in the cache folder: the same ids from them, whatever becomes of the files."""

import json
import os
import subprocess
import sys
from itertools import product

import pytest

from tokenmill import Tokenizer
from tokenmill._core import spell
from tokenmill.base.hardware.cache import tables_folder
from tokenmill.errors import ConfigError

TEXT = "The mill turns: 방앗간이 돌고, 磨坊在转。 naïve café <|end|> 12345 \n\n\tdef f(x): return x"
PROGRAM = """
import sys
from tokenmill import Tokenizer
tokenizer = Tokenizer.load(sys.argv[1])
print(tokenizer.fingerprint, *tokenizer.encode(sys.argv[2]))
"""


def write_tokenizer(path, letters=160):
    """A byte-level `tokenizer.json` that is large enough to be kept: every two of some bytes are a token."""
    words = [bytes([byte]) for byte in range(256)]
    pairs = list(product(words[256 - letters :], words[32 : 32 + letters]))
    merges = [[spell(left), spell(right)] for left, right in pairs]
    words += [left + right for left, right in pairs]
    vocabulary = {spell(word): place for place, word in enumerate(words)}
    added = {"id": len(words), "content": "<|end|>", "special": True, "normalized": False}
    added |= dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    steps = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    whole = {
        "version": "1.0",
        "added_tokens": [added],
        "normalizer": None,
        "pre_tokenizer": steps,
        "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }
    path.write_text(json.dumps(whole, indent=1))
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_tokenizer(tmp_path_factory.mktemp("kept") / "tokenizer.json")


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tables"


@pytest.fixture(scope="module")
def expected(source):
    """Fingerprint and ids without any kept table."""
    environment = os.environ | {"TOKENMILL_CACHE_TABLES": "off"}
    return run(source, environment)


def run(source, environment):
    argv = [sys.executable, "-c", PROGRAM, str(source), TEXT]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout


def told(source):
    tokenizer = Tokenizer.load(source)
    return " ".join([tokenizer.fingerprint, *map(str, tokenizer.encode(TEXT))]) + "\n"


def test_the_second_load_takes_kept_tables_and_gives_the_same(source, folder, expected):
    assert told(source) == expected
    first = {path: path.read_bytes() for path in folder.iterdir()}
    assert len(first) == 2  # what the file says, and the tables made of it
    assert told(source) == expected
    assert {path: path.read_bytes() for path in folder.iterdir()} == first


def test_other_special_tokens_have_tables_of_their_own(source, folder):
    plain = Tokenizer.load(source).encode("a <|more|> b")
    assert len(list(folder.iterdir())) == 2
    more = Tokenizer.load(source, special_tokens={"<|more|>": 30_000})
    assert len(list(folder.iterdir())) == 3
    assert 30_000 in more.encode("a <|more|> b") != plain
    assert Tokenizer.load(source).encode("a <|more|> b") == plain


@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_file_is_built_again(source, folder, expected, which):
    assert told(source) == expected
    path = sorted(folder.iterdir())[which]
    good = path.read_bytes()
    for at in [*range(0, len(good), len(good) // 16), len(good) - 1]:
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        assert told(source) == expected, at
        assert path.read_bytes() == good, at
        path.write_bytes(good[:at])
        assert told(source) == expected, at
    path.write_bytes(b"")
    assert told(source) == expected
    assert path.read_bytes() == good


def test_processes_that_start_together_agree(source, folder, expected):
    argv = [sys.executable, "-c", PROGRAM, str(source), TEXT]
    racing = [subprocess.Popen(argv, env=os.environ, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in racing] == [expected] * 4
    assert len(list(folder.iterdir())) == 2


def test_other_instructions_read_the_same_tables(source, folder, expected):
    assert told(source) == expected
    before = {path: path.stat().st_ino for path in folder.iterdir()}
    assert run(source, os.environ | {"TOKENMILL_CPU": "portable"}) == expected
    assert {path: path.stat().st_ino for path in folder.iterdir()} == before


def test_a_folder_that_cannot_be_written_changes_nothing(source, folder, expected):
    folder.parent.mkdir()
    folder.write_text("a file where the folder would be")
    assert told(source) == expected
    assert told(source) == expected


def test_kept_tables_can_be_switched_off(source, folder, expected, monkeypatch):
    monkeypatch.setenv("TOKENMILL_CACHE_TABLES", "off")
    assert tables_folder() is None
    assert told(source) == expected
    assert not folder.exists()
    monkeypatch.setenv("TOKENMILL_CACHE_TABLES", "perhaps")
    with pytest.raises(ConfigError, match="TOKENMILL_CACHE_TABLES: expected on or off, found 'perhaps'"):
        Tokenizer.load(source)


def test_a_small_vocabulary_is_not_kept(folder, tmp_path):
    Tokenizer.load(write_tokenizer(tmp_path / "tokenizer.json", letters=20))
    assert not folder.exists()
