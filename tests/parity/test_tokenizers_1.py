"""With `tokenizers` 1.x installed: the same ids as with 0.x, on its quick path, and parity is compared."""

import json
import os
import subprocess
from functools import cache

import pytest
from configurations import CORPUS, FAST, NATIVE, built
from test_configurations import DOCS
from tokenizers import Tokenizer as HF
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from tokenizers_environment import ROOT, WHY_NOT, tokenizers_1_python

HERE = ROOT / "tests"


def word_piece():
    hf = HF(models.WordPiece(unk_token="[UNK]"))
    hf.normalizer, hf.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    hf.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=900, special_tokens=special, show_progress=False)
    )
    hf.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return hf


def unigram():
    hf = HF(models.Unigram())
    hf.normalizer, hf.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    special = ["<unk>", "</s>"]
    hf.train_from_iterator(
        CORPUS,
        trainers.UnigramTrainer(
            vocab_size=900, special_tokens=special, unk_token="<unk>", show_progress=False
        ),
    )
    return hf


OTHERS = {"word-piece": word_piece, "unigram": unigram}
REFUSED = "0.x may support it: pip install 'tokenizers<1'"
SHAPES = [*NATIVE, *FAST, *OTHERS]


@cache
def python():
    found = tokenizers_1_python()
    if found is None:
        pytest.skip(WHY_NOT)
    return found


def environ():
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE / "parity")))}


def ids(hf, docs):
    return [encoding.ids for encoding in hf.encode_batch(docs, add_special_tokens=False)]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    docs = {"parse": DOCS[::3], "text": DOCS[1::3]}
    (folder / "docs").write_text(json.dumps(docs), encoding="utf-8")
    for name in SHAPES:
        hf = OTHERS[name]() if name in OTHERS else built(name)
        (folder / f"{name}.json").write_text(hf.to_str(), encoding="utf-8")
        want = {"parse": ids(hf, docs["parse"])}
        hf.encode_special_tokens = True
        want["text"] = ids(hf, docs["text"])
        hf.encode_special_tokens = False
        (folder / f"{name}.ids").write_text(json.dumps(want), encoding="utf-8")
    done = run(HERE / "parity" / "tokenizers_1_process.py", folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_encodes_as_with_0_x(name, report):
    found = report[name]
    assert found["strategy"] == ("native" if name in NATIVE else "fast")
    if name in FAST:
        assert REFUSED in found["auto"]
    else:
        assert found["auto"] is None


@pytest.mark.parametrize("name", NATIVE)
def test_parity_is_compared_or_says_why_not(name, report):
    """A shape that version 1 does not load is named with its remedy; any other is compared."""
    refused = REFUSED in (report[name]["fast"] or "")
    assert refused == (name in {"gpt2-prefix", "roberta", "falcon", "falcon-ended", "deepseek-coder", "own-pattern", "added-lower", "clip"})  # fmt: skip
    assert (report[name]["skipped"] == report[name]["fast"]) if refused else report[name]["skipped"] is None


def run(*command):
    return subprocess.run(
        [python(), *map(str, command)], env=environ(), capture_output=True, text=True, encoding="utf-8", timeout=250, check=False
    )  # fmt: skip


@pytest.mark.parametrize(("name", "line"), [("gpt2", "same ids on 30"), ("clip", "Parity check skipped")])
def test_prepare_says_what_came_of_the_comparison(name, line, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "the document"}\n' * 30)
    (tmp_path / "tokenizer.json").write_text(built(name).to_str(), encoding="utf-8")
    done = run("-m", "tokenmill", "prepare", tmp_path / "a.jsonl", "--tokenizer", tmp_path / "tokenizer.json", "--output", tmp_path / "out")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert line in done.stderr


def test_bench_and_objects(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(built("gpt2").to_str(), encoding="utf-8")
    (tmp_path / "a.txt").write_text("the cat sat on the mat\n" * 50)
    done = run("-m", "tokenmill", "bench", tmp_path / "a.txt", "--tokenizer", path, "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row["same_ids"] for row in json.loads(done.stdout)["rows"]}
    assert rows["tokenizers"] is True
    code = (
        "import sys, tokenizers, tokenmill; hf = tokenizers.Tokenizer.from_file(sys.argv[1]); "
        "print(tokenmill.Tokenizer.load(hf).encode(sys.argv[2]) == hf.encode(sys.argv[2], add_special_tokens=False).ids)"
    )
    assert run("-c", code, path, "the cat<|endoftext|> 한국").stdout.strip() == "True"


def test_offsets_are_refused_by_name(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(word_piece().to_str(), encoding="utf-8")
    code = "import sys, tokenmill; tokenmill.Tokenizer.load(sys.argv[1]).offsets('the cat')"
    assert "which gives no offsets; ask only for ids, or pip install 'tokenizers<1'" in run("-c", code, path).stderr  # fmt: skip


def test_the_tokenizer_suite():
    done = run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", HERE / "unit" / "tokenizer")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
