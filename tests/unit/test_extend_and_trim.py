"""Extending and trimming a vocabulary: exact by a slow reference, proven on kept texts, refused where it must be."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest
import tokenizers

import reference
import tokenmill
from mill_words import ENGLISH, KOREAN
from tokenmill.errors import ConfigError, InputError, TokenizerError
from tokenmill.pipeline.extend import extend
from tokenmill.vocab.trim import trim
from tokenmill.vocab.words import build_piece_tokenizer


def texts(words, number=300, seed=1):
    rng = random.Random(seed)
    return [" ".join(rng.choices(words, k=12)) for _ in range(number)]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    tok = tokenmill.train_from_iterator(
        texts(ENGLISH),
        300,
        special_tokens=["<|endoftext|>", "<|reserved_0|>", "<|reserved_1|>"],
        output=folder,
    )
    (folder / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    assert tok.vocab_size == 300
    return tokenmill.Tokenizer.load(folder)


def lines(path, documents):
    path.write_text(
        "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in documents), "utf-8"
    )
    return path


def words_of(tok, documents):
    """The reference's view: every piece as the bytes of its old tokens."""
    pieces = reference.pieces_of(documents)
    alone = build_piece_tokenizer(tok)
    return [([tok.token_bytes(i) for i in alone.encode(p.decode())], n) for p, n in pieces.items()]


@pytest.mark.parametrize("tie_break", ["huggingface", "lexicographic"])
@pytest.mark.parametrize("source", [KOREAN, ENGLISH + KOREAN])
def test_new_merges_are_those_of_a_slow_trainer_that_goes_on(base, source, tie_break):
    documents = texts(source, seed=2)
    extended = extend(base, iter(documents), add=60, tie_break=tie_break, min_frequency=1)
    ids = {base.token_bytes(i): i for i in range(3, base.vocab_size)}
    old = set(ids)
    expected = reference.go_on(
        words_of(base, documents), ids, len(ids) + 60, tie_break, 1, allows=lambda p: p[0] + p[1] not in old
    )
    model = extended.recipe.model
    new = list(model.merges)[len(base.recipe.model.merges) :]
    assert [(model.tokens[left], model.tokens[right]) for left, right in new] == expected


def test_no_old_id_changes_and_hugging_face_agrees(base, tmp_path):
    documents = texts(KOREAN, seed=3)
    extended = extend(base, lines(tmp_path / "ko.jsonl", documents), add=60, output=tmp_path / "out")
    assert [extended.token_bytes(i) for i in range(300)] == [base.token_bytes(i) for i in range(300)]
    assert extended.special_tokens == base.special_tokens
    assert extended.vocab_size == 360
    assert (tmp_path / "out" / "chat_template.jinja").read_text(encoding="utf-8") == "{{ messages }}"
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    loaded = tokenmill.Tokenizer.load(tmp_path / "out")
    for text in [*documents[:50], *texts(ENGLISH, 50, seed=4), "<|endoftext|>"]:
        ids = extended.encode(text)
        assert ids == loaded.encode(text) == peer.encode(text, add_special_tokens=False).ids
    assert len(extended.encode(documents[0])) < len(base.encode(documents[0]))


def test_the_map_says_which_old_ids_a_new_token_stands_for(base, tmp_path):
    extended = extend(base, iter(texts(KOREAN)), add=40, output=tmp_path / "out", pad_to_multiple=64)
    body = json.loads((tmp_path / "out" / "extension.json").read_text(encoding="utf-8"))
    assert body["result"]["embedding_rows"] == 384
    assert [token["id"] for token in body["tokens"]] == list(range(300, 340))
    for token in body["tokens"]:
        spelled = b"".join(base.token_bytes(part) for part in token["parts"])
        assert spelled.hex() == token["bytes"] == extended.token_bytes(token["id"]).hex()
        assert token["count"] > 1


def test_kept_documents_keep_their_ids(base, tmp_path):
    english = texts(ENGLISH, seed=5)
    mixed = texts(ENGLISH + KOREAN, seed=6)
    kept = lines(tmp_path / "en.jsonl", english)
    free = extend(base, iter(mixed), add=60, min_frequency=1)
    assert any(free.encode(text) != base.encode(text) for text in english)
    extended = extend(base, iter(mixed), add=60, min_frequency=1, keep_ids=[kept], output=tmp_path / "out")
    assert all(extended.encode(text) == base.encode(text) for text in english)
    proof = json.loads((tmp_path / "out" / "extension.json").read_text(encoding="utf-8"))["certificate"]
    assert (proof["documents"], proof["changed"]) == (len(english), 0)
    assert len(proof["files"][0]["sha256"]) == 64


def test_new_tokens_are_of_the_script_asked_for(base):
    extended = extend(base, iter(texts(ENGLISH + KOREAN)), add=40, only_script=["Hangul"])
    whole = [extended.token_bytes(i) for i in range(300, 340)]
    assert not any(byte in range(0x41, 0x7B) for token in whole for byte in token)
    assert all(extended.encode(text) == base.encode(text) for text in texts(ENGLISH))


def test_required_strings_are_one_token(base):
    required = ["물레방아", " 물레방아", "레방", "waterwheel"]
    extended = extend(base, iter(texts(KOREAN)), add=60, require=required)
    assert all(len(extended.encode(string)) == 1 for string in required)
    with pytest.raises(ConfigError, match="cuts it into pieces"):
        extend(base, iter(texts(KOREAN)), add=60, require=["두 낱말"])


def test_reserved_ids_are_taken_first(base):
    extended = extend(base, iter(texts(KOREAN)), add=10, reuse_reserved=True)
    assert extended.special_tokens == {"<|endoftext|>": 0}
    assert extended.vocab_size == 308
    assert extended.token_bytes(1) != b"<|reserved_0|>"
    text = texts(KOREAN)[0]
    assert extended.decode(extended.encode(text)) == text


def test_what_cannot_be_done_is_refused_and_leaves_nothing(base, tmp_path):
    few = iter(["a b"])
    with pytest.raises(InputError, match="new tokens can be learned"):
        extend(base, few, add=5000, output=tmp_path / "out")
    with pytest.raises(InputError, match="not a script"):
        extend(base, iter(texts(KOREAN)), add=5, only_script=["Hangull"], output=tmp_path / "out")
    empty = lines(tmp_path / "empty.jsonl", [])
    with pytest.raises(InputError):
        extend(base, iter(texts(KOREAN)), add=5, keep_ids=[empty], output=tmp_path / "out")
    word_piece = tokenizers.Tokenizer(tokenizers.models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    with pytest.raises(TokenizerError, match="WordPiece"):
        extend(tokenmill.Tokenizer.load(word_piece), iter(texts(KOREAN)), add=5)
    lower = tokenizers.Tokenizer.from_file(base.source)
    lower.normalizer = tokenizers.normalizers.Lowercase()
    with pytest.raises(TokenizerError, match="normalizer Lowercase"):
        extend(tokenmill.Tokenizer.load(lower), iter(texts(KOREAN)), add=5)
    unigram = tokenizers.Tokenizer(tokenizers.models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0))
    with pytest.raises(TokenizerError, match="Unigram"):
        extend(tokenmill.Tokenizer.load(unigram), iter(texts(KOREAN)), add=5)
    wrong = {"add": 0, "min_frequency": -1, "pattern": "gpt2", "executor": "slurm", "pad_to_multiple": 0}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=name):
            extend(base, iter(texts(KOREAN)), **{"add": 5, name: value})
    assert not (tmp_path / "out").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ConfigError, match="not an empty"):
        extend(base, iter(texts(KOREAN)), add=5, output=tmp_path / "full")


def test_trimming_keeps_what_the_texts_need(base, tmp_path):
    documents = texts(ENGLISH[:3], seed=9)
    trimmed = trim(base, lines(tmp_path / "few.jsonl", documents), size=275, output=tmp_path / "out")
    assert trimmed.vocab_size == 275
    body = json.loads((tmp_path / "out" / "trim.json").read_text(encoding="utf-8"))
    old = np.array(body["old_ids"])
    dropped = set(range(base.vocab_size)) - set(old.tolist())
    assert len(dropped) == 25
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    same = 0
    for text in [*documents, *texts(ENGLISH, 100), *texts(KOREAN, 20)]:
        ids, before = trimmed.encode(text), base.encode(text)
        assert ids == peer.encode(text, add_special_tokens=False).ids
        assert trimmed.decode(ids) == text
        if not dropped & set(before):
            same += 1
            assert old[ids].tolist() == before
    assert same > len(documents) / 2
    assert trimmed.special_tokens.keys() == base.special_tokens.keys()


def test_trimming_by_count_and_by_too_small_a_size(base, tmp_path):
    documents = lines(tmp_path / "few.jsonl", texts(ENGLISH, seed=9))
    used = trim(base, documents, min_count=1)
    assert used.vocab_size <= base.vocab_size
    assert all(len(used.encode(t)) == len(base.encode(t)) for t in texts(ENGLISH, seed=9))
    with pytest.raises(ConfigError, match="must stay"):
        trim(base, documents, size=100)
    with pytest.raises(ConfigError, match="either"):
        trim(base, documents)


def test_a_required_string_of_a_kept_document_is_refused(base, tmp_path):
    kept = lines(tmp_path / "kept.jsonl", ["the waterwheel of the mill"])
    options = {"add": 30, "keep_ids": [kept]}
    with pytest.raises(ConfigError, match="' waterwheel' cannot be required"):
        extend(base, iter(texts(KOREAN)), require=[" waterwheel"], **options)
    extended = extend(base, iter(texts(KOREAN)), require=["물레방아"], **options)
    assert len(extended.encode("물레방아")) == 1


def test_what_lies_beside_the_base_comes_along_but_no_weights(base, tmp_path):
    home = tmp_path / "base"
    base.save(home)
    others = {
        "generation_config.json": "{}",
        "LICENSE": "free",
        "additional_chat_templates/tools.jinja": "{{ t }}",
    }
    old = ("vocab.json", "merges.txt", "config.json", "model.safetensors", "corpus.jsonl", "tokenizer.model")
    for name, text in [*others.items(), *((name, "{}") for name in old)]:
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    extend(home, iter(texts(KOREAN)), add=5, output=tmp_path / "out")
    assert all((tmp_path / "out" / name).read_text() == text for name, text in others.items())
    assert not any((tmp_path / "out" / name).exists() for name in old)
    assert (tmp_path / "out" / "tokenizer_config.json").read_bytes() == (
        home / "tokenizer_config.json"
    ).read_bytes()


def test_configs_forget_reserved_tokens_that_were_taken(base, tmp_path):
    home = tmp_path / "base"
    base.save(home)
    names = {"0": "<|endoftext|>", "1": "<|reserved_0|>", "2": "<|reserved_1|>"}
    config = {
        "added_tokens_decoder": {key: {"content": name, "special": True} for key, name in names.items()},
        "additional_special_tokens": ["<|reserved_0|>", "<|reserved_1|>"],
    }
    (home / "tokenizer_config.json").write_text(json.dumps(config))
    extend(home, iter(texts(KOREAN)), add=1, reuse_reserved=True, output=tmp_path / "out")
    after = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert list(after["added_tokens_decoder"]) == ["0", "2"]
    assert after["additional_special_tokens"] == ["<|reserved_1|>"]


def sentencepiece_like(folder):
    """A vocabulary of characters with byte fallback that knows few of Korean's."""
    known = "▁millturngwaehfosbd방앗간이"
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for token in [f"<0x{byte:02X}>" for byte in range(256)] + sorted(set(known)) + ["▁m", "▁mi"]:
        vocabulary[token] = len(vocabulary)
    model = tokenizers.models.BPE(
        vocab=vocabulary,
        merges=[("▁", "m"), ("▁m", "i")],
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    hf = tokenizers.Tokenizer(model)
    hf.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    hf.add_special_tokens(["<unk>", "<s>", "</s>"])
    folder.mkdir()
    hf.save(str(folder / "tokenizer.json"))
    return folder


def test_characters_that_a_sentencepiece_base_lacks_become_tokens(tmp_path):
    home = sentencepiece_like(tmp_path / "base")
    base = tokenmill.Tokenizer.load(home)
    documents = texts(KOREAN, seed=3)
    kept = lines(tmp_path / "kept.jsonl", [*texts(ENGLISH, 40), "강 river"])
    options = {"add": 40, "output": tmp_path / "out", "keep_ids": [kept], "only_script": ["Hangul"]}
    extended = extend(home, iter(documents), require=["물레방아"], **options)
    body = json.loads((tmp_path / "out" / "extension.json").read_text())
    characters = {token["text"]: token["parts"] for token in body["tokens"] if len(token["text"]) == 1}
    assert set(characters) == set("".join(KOREAN)) - set("방앗간이강")
    assert all(base.decode_bytes(parts) == character.encode() for character, parts in characters.items())
    assert all(
        len(token["parts"]) == len(base.encode(token["text"].removeprefix("▁"))) - 1
        for token in body["tokens"]
        if "▁" not in token["text"]
    )
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    for text in [*documents, *texts(ENGLISH, 40), "강 river", "<s>강을 漢 빵🙂", "  두 칸"]:
        assert extended.encode(text) == peer.encode(text, add_special_tokens=False).ids
    assert len(extended.encode(" 물레방아")) < len(base.encode(" 물레방아"))
    assert extended.encode("강 river") == base.encode("강 river")
    assert sum(map(len, extended.encode_batch(documents))) < 0.2 * sum(map(len, base.encode_batch(documents)))


def test_the_map_names_the_fingerprint_of_the_saved_tokenizer(tmp_path):
    base = tokenmill.train_from_iterator(["low lower lowest"] * 9, 262, progress=False)
    made = tokenmill.extend(
        base, iter(["방앗간이 돈다"] * 9), add=12, only_script="Hangul", output=tmp_path / "ext"
    )
    trimmed = tokenmill.trim(base, pa.array(["low low"]), size=259, output=tmp_path / "trim")
    for name, result, file in (("ext", made, "extension.json"), ("trim", trimmed, "trim.json")):
        recorded = json.loads((tmp_path / name / file).read_text(encoding="utf-8"))["result"]["fingerprint"]
        assert recorded == tokenmill.Tokenizer.load(tmp_path / name).fingerprint == result.fingerprint
    assert made.vocab_size == 274  # one script as a string, not as a list of letters
