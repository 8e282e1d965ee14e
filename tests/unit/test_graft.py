"""Embedding rows for another vocabulary: old ones bit for bit, new ones from the old ids they stand for."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tokenmill
from tokenmill.errors import InputError
from tokenmill.vocab.graft import graft_model
from tokenmill.vocab.maps import VocabularyMap, load_map

ROWS, WIDTH = 20, 6


def extension(size=24, base=18):
    """Tokens 18 and 19 are made of old ones; the embedding had two rows of padding."""
    parts = {18: (1, 2), 19: (3, 3, 4), 20: (5, 6)}
    old = {i: (i,) for i in range(base)} | parts
    return VocabularyMap("a", "b", base, size, old, Path("none"), extends=True)


def model(folder, dtype=np.float32, *, sharded=False, tied=False, rows=ROWS):
    rng = np.random.default_rng(1)
    folder.mkdir()
    tensors = {"model.embed_tokens.weight": rng.normal(size=(rows, WIDTH)).astype(dtype)}
    tensors["model.norm.weight"] = rng.normal(size=WIDTH).astype(dtype)
    if not tied:
        tensors["lm_head.weight"] = rng.normal(size=(rows, WIDTH)).astype(dtype)
    if sharded:
        names = sorted(tensors)
        files = {f"model-0000{i}-of-0000{len(names)}.safetensors": name for i, name in enumerate(names, 1)}
        for file, name in files.items():
            save_file({name: tensors[name]}, folder / file, {"format": "pt"})
        index = {"metadata": {"total_size": 1}, "weight_map": {name: file for file, name in files.items()}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    else:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"vocab_size": rows, "hidden_size": WIDTH}))
    (folder / "generation_config.json").write_text("{}")
    return tensors


def read(folder):
    return {
        name: rows for path in sorted(folder.glob("*.safetensors")) for name, rows in load_file(path).items()
    }


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_old_rows_stay_and_new_ones_are_means_of_their_parts(tmp_path, sharded, tied):
    before = model(tmp_path / "in", sharded=sharded, tied=tied)
    told = graft_model(tmp_path / "in", extension(), tmp_path / "out")
    after = read(tmp_path / "out")
    assert set(after) == set(before)
    for name in told["tensors"]:
        assert after[name].shape == (24, WIDTH)
        np.testing.assert_array_equal(after[name][:18], before[name][:18])
        np.testing.assert_allclose(after[name][18], before[name][[1, 2]].mean(0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(after[name][19], before[name][[3, 3, 4]].mean(0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(after[name][23], before[name][:18].mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(after["model.norm.weight"], before["model.norm.weight"])
    assert json.loads((tmp_path / "out" / "config.json").read_text())["vocab_size"] == 24
    assert (tmp_path / "out" / "generation_config.json").exists()
    if sharded:
        index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
        assert index["metadata"]["total_size"] == sum(rows.nbytes for rows in after.values())


def test_a_trim_picks_rows(tmp_path):
    before = model(tmp_path / "in")["lm_head.weight"]
    change = VocabularyMap("a", "b", 18, 4, {0: (2,), 1: (5,), 2: (17,)}, tmp_path, extends=False)
    graft_model(tmp_path / "in", change, tmp_path / "out")
    after = read(tmp_path / "out")["lm_head.weight"]
    np.testing.assert_array_equal(after[:3], before[[2, 5, 17]])
    assert after.shape == (4, WIDTH)


def test_a_donor_carries_a_sparse_combination_over(tmp_path):
    """If the donor's space is a rotation of ours, a new row is the same combination of our rows."""
    rng = np.random.default_rng(3)
    before = model(tmp_path / "in", rows=18)["lm_head.weight"]
    turn, _ = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))
    donor = np.concatenate([before, (0.7 * before[2] - 0.2 * before[9])[None]]).astype(np.float64) @ turn
    (tmp_path / "donor").mkdir()
    tables = {name: donor.astype(np.float32) for name in ("lm_head.weight", "model.embed_tokens.weight")}
    save_file(tables, tmp_path / "donor" / "model.safetensors")
    old = {i: (i,) for i in range(18)} | {18: (1, 2)}
    change = VocabularyMap("a", "b", 18, 19, old, Path("none"), extends=True)
    graft_model(tmp_path / "in", change, tmp_path / "out", donor=tmp_path / "donor")
    after = read(tmp_path / "out")["lm_head.weight"]
    np.testing.assert_allclose(after[18], 0.7 * before[2] - 0.2 * before[9], atol=1e-4)
    with pytest.raises(InputError, match=r"donor has the shape \[19, 6\]"):
        graft_model(tmp_path / "in", extension(), tmp_path / "other", donor=tmp_path / "donor")


def test_wrong_models_are_refused(tmp_path):
    model(tmp_path / "in")
    with pytest.raises(InputError, match=r"\[20, 6\].*needs 30"):
        graft_model(tmp_path / "in", extension(size=40, base=30), tmp_path / "out")
    with pytest.raises(InputError, match="`embeddings`"):
        graft_model(tmp_path / "in", extension(), tmp_path / "out", embeddings=["nowhere.weight"])
    (tmp_path / "in" / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config.json is not valid JSON.*copy it again"):
        graft_model(tmp_path / "in", extension(), tmp_path / "out")
    (tmp_path / "in" / "config.json").write_text('{"vocab_size": 99}')
    with pytest.raises(InputError, match=r"99.*20"):
        graft_model(tmp_path / "in", extension(), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".tmp*"))


def test_a_truncated_file_is_refused(tmp_path):
    model(tmp_path / "in", sharded=True)
    weights = tmp_path / "in" / "model-00002-of-00003.safetensors"
    for path in (weights, tmp_path / "in" / "model.safetensors.index.json"):
        whole = path.read_bytes()
        for size in range(0, len(whole), 7):
            path.write_bytes(whole[:size])
            with pytest.raises(InputError, match="copy it again"):
                graft_model(tmp_path / "in", extension(), tmp_path / "out")
        path.write_bytes(whole)
    weights.unlink()
    with pytest.raises(InputError, match="no such file"):
        graft_model(tmp_path / "in", extension(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def korean(folder, **options):
    """A small base in a directory, and its extension."""
    base = tokenmill.train_from_iterator(
        ["low lower lowest"] * 9, 262, special_tokens=["<|eos|>"], output=folder / "base"
    )
    (folder / "base" / "chat_template.jinja").write_text("{{ new }}")
    texts = ["방앗간이 돈다 물레방아"] * 9
    tokenmill.extend(folder / "base", iter(texts), add=20, output=folder / "longer", **options)
    return base


def fill(folder, rows, tokenizer=None):
    model(folder, rows=rows)
    (folder / "chat_template.jinja").write_text("{{ old }}")
    (folder / "LICENSE").write_text("free")
    (folder / "vocab.json").write_text("{}")
    (folder / "pytorch_model.bin").write_bytes(b"old")
    (folder / "extra").mkdir()
    (folder / "extra" / "notes.txt").write_text("kept")
    if tokenizer is not None:
        tokenizer.save(folder)
    return folder


def test_the_tokenizer_beside_the_map_takes_the_place_of_the_old_one(tmp_path):
    base = korean(tmp_path)
    fill(tmp_path / "in", base.vocab_size, base)
    told = graft_model(tmp_path / "in", load_map(tmp_path / "longer"), tmp_path / "out")
    out = tmp_path / "out"
    assert told["tokenizer"]
    assert tokenmill.Tokenizer.load(out).vocab_size == base.vocab_size + 20
    assert (out / "chat_template.jinja").read_text() == "{{ new }}"
    assert (out / "LICENSE").read_text() == "free"
    assert (out / "extra" / "notes.txt").read_text() == "kept"
    assert not (out / "vocab.json").exists()
    assert not (out / "pytorch_model.bin").exists()
    assert not (out / "extension.json").exists()


def test_a_model_with_another_tokenizer_is_refused(tmp_path):
    base = korean(tmp_path)
    other = tokenmill.train_from_iterator(["quite another text"] * 9, 262, special_tokens=["<|eos|>"])
    fill(tmp_path / "in", base.vocab_size, other)
    with pytest.raises(InputError, match="a different tokenizer") as refused:
        graft_model(tmp_path / "in", load_map(tmp_path / "longer"), tmp_path / "out")
    assert base.fingerprint[:16] in str(refused.value)
    assert other.fingerprint[:16] in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_ids_in_configs_follow_a_trim(tmp_path):
    base = tokenmill.train_from_iterator(
        ["low lower lowest"] * 9, 262, special_tokens=["<|pad|>", "<|eos|>"], output=tmp_path / "base"
    )
    eos = base.special_tokens["<|eos|>"]
    (tmp_path / "low.txt").write_text("low")
    tokenmill.trim(tmp_path / "base", tmp_path / "low.txt", size=259, output=tmp_path / "small")
    fill(tmp_path / "in", base.vocab_size, base)
    config = {"vocab_size": base.vocab_size, "hidden_size": WIDTH, "eos_token_id": eos, "pad_token_id": 261}
    (tmp_path / "in" / "config.json").write_text(json.dumps(config))
    (tmp_path / "in" / "generation_config.json").write_text(json.dumps({"eos_token_id": [eos, 261]}))
    graft_model(tmp_path / "in", load_map(tmp_path / "small"), tmp_path / "out")
    small = tokenmill.Tokenizer.load(tmp_path / "small")
    after = json.loads((tmp_path / "out" / "config.json").read_text())
    assert after["eos_token_id"] == small.special_tokens["<|eos|>"]
    assert after["pad_token_id"] is None
    generation = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert generation == {"eos_token_id": [small.special_tokens["<|eos|>"]]}


def test_a_map_without_a_tokenizer_leaves_none_behind(tmp_path):
    base = korean(tmp_path)
    (tmp_path / "map").mkdir()
    (tmp_path / "longer" / "extension.json").rename(tmp_path / "map" / "extension.json")
    fill(tmp_path / "in", base.vocab_size, base)
    told = graft_model(tmp_path / "in", load_map(tmp_path / "map" / "extension.json"), tmp_path / "out")
    assert not told["tokenizer"]
    assert not (tmp_path / "out" / "tokenizer.json").exists()
