"""Extended vocabularies of real families: Hugging Face gives our ids, and no old id changes."""

import json
from importlib.resources import files

import pytest
from configurations import built
from tokenizers import Tokenizer as HF
from torture import edges, mixtures
from vocabularies import DEEPSEEK, QWEN, TEKKEN, openai, place, spm

import tokenmill
from tokenmill import Tokenizer
from tokenmill.errors import InputError

SAMPLE = [
    json.loads(line)["text"]
    for line in (files("tokenmill") / "data" / "sample.jsonl").read_text(encoding="utf-8").splitlines()
]
KOREAN = [text for text in SAMPLE if any("가" <= character <= "힣" for character in text)]
RESERVED = {f"<|reserved_special_token_{number}|>": 100_300 + number for number in range(40)}


def llama3_like(folder):
    """cl100k's vocabulary as Llama-3 has its own: whole pieces first, reserved tokens after a gap."""
    base = Tokenizer.load(place(*openai("cl100k_base")), special_tokens=RESERVED)
    base.save(folder)
    data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    data["model"]["ignore_merges"] = True
    (folder / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


def cl100k_json(folder):
    Tokenizer.load(place(*openai("cl100k_base"))).save(folder)
    return folder


BASES = {
    "qwen": lambda _folder: place(*QWEN),
    "cl100k": cl100k_json,
    "llama3": llama3_like,
    "deepseek": lambda _folder: place(*DEEPSEEK),
    "tekken": lambda _folder: place(*TEKKEN),
    "mistral": lambda _folder: place(*spm("v3")),
}


@pytest.mark.filterwarnings("ignore:.*user-defined pieces")
@pytest.mark.parametrize("name", sorted(BASES))
def test_hugging_face_gives_our_ids(name, tmp_path):
    base = Tokenizer.load(BASES[name](tmp_path / "base"))
    options = {"only_script": ["Hangul"], "min_frequency": 1, "output": tmp_path / "out"}
    extended = tokenmill.extend(base, iter(KOREAN), add=60, **options)
    assert extended.special_tokens == base.special_tokens
    assert extended.vocab_size == base.vocab_size + 60
    peer = HF.from_file(str(tmp_path / "out" / "tokenizer.json"))
    loaded = Tokenizer.load(tmp_path / "out")
    fewer = 0
    for text in [*SAMPLE, *base.special_tokens, "  leading", "한국어 English 123 漢字\n\n\t끝"]:
        ids = loaded.encode(text)
        assert ids == peer.encode(text, add_special_tokens=False).ids
        before = base.encode(text)
        fewer += len(before) - len(ids)
        if text not in KOREAN and "한" not in text:
            assert ids == before
    assert fewer > 0


def test_tokens_that_span_words(tmp_path):
    """SuperBPE: the second stage continues the first with a pattern that keeps words together."""
    tokenmill.train_from_iterator(SAMPLE, 1500, pattern="o200k", progress=False).save(tmp_path / "base")
    path = tmp_path / "base" / "tokenizer.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = (
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)"
    )
    path.write_text(json.dumps(data), encoding="utf-8")
    extended = tokenmill.extend(tmp_path / "base", iter(SAMPLE), add=500, output=tmp_path / "out")
    new = [extended.decode([number], errors="replace") for number in range(1500, 2000)]
    assert sum(" " in token.strip() for token in new) > 100
    peer = HF.from_file(str(tmp_path / "out" / "tokenizer.json"))
    texts = [*SAMPLE, "".join(SAMPLE), *edges(), *mixtures()]
    found = extended.encode_batch(texts)
    assert [list(ids) for ids in found] == [each.ids for each in peer.encode_batch(texts)]


@pytest.mark.parametrize("name", ["falcon", "falcon-ended"])
def test_a_chain_of_splits_keeps_the_ids_of_documents(name, tmp_path):
    """No single pattern cuts text as Falcon does, so that its pieces are counted one by one."""
    base, english = Tokenizer.load(built(name)), ["Zanzibar quaffs 1234 xylophones", "quaff", ""]
    kept = tmp_path / "en.txt"
    kept.write_text("\n".join(english), encoding="utf-8")
    documents = [*["Zanzibar quaffed 12345 xylophones"] * 9, "맷돌이 곡식을 빻는다"]
    free = tokenmill.extend(base, iter(documents), add=15, min_frequency=1)
    assert any(free.encode(text) != base.encode(text) for text in english)
    extended = tokenmill.extend(base, iter(documents), add=15, min_frequency=1, keep_ids=[kept])
    assert [extended.encode(text) for text in english] == [base.encode(text) for text in english]
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(InputError, match="contain no text"):
        tokenmill.extend(base, iter(documents), add=15, keep_ids=tmp_path / "empty.txt")
