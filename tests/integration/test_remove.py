"""`tokenmill dataset remove`: equal to preparing without the documents, by writing only the shards that had them."""

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import tokenmill
from tokenmill.cli import main
from tokenmill.datasets.ledger.plan import load_plan, save_plan
from tokenmill.datasets.ledger.receipt import save_receipt
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.pipeline.output import lock_dataset

WORDS = ["mill", "turning", "water", "방앗간이", "돌아간다", "磨坊", "在转", "🌊"]
PACKINGS = {
    "stream": {},
    "concat": {"mode": "concat", "context_length": 64},
    "window": {"mode": "window", "context_length": 64, "overlap": 8, "columns": ["document_ids"]},
    "bestfit": {"mode": "bestfit", "context_length": 64, "columns": ["labels", "position_ids"]},
    "pad": {"mode": "pad", "context_length": 64},
    "megatron": {"format": "megatron"},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("remove")
    rng = random.Random(7)
    texts = [" ".join(rng.choices(WORDS, k=rng.randrange(1, 40))) + f" #{nth}#" for nth in range(400)]
    lines = [json.dumps({"text": text, "key": f"k{nth}"}) for nth, text in enumerate(texts)]
    (root / "c.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenmill.train_from_iterator(texts, 300, special_tokens=["<|endoftext|>"], output=root / "tok")
    return root, texts


def prepare(root, output, **options):
    options = {"inputs": str(root / "c.jsonl"), "unit_bytes": 4000, "verbose_level": "ERROR"} | options
    named = {"provenance": True, "id_field": "key", "report": False}
    return tokenmill.prepare(tokenizer=root / "tok", output=output, **named, **options)


@pytest.mark.parametrize("packing", sorted(PACKINGS))
def test_it_equals_preparing_without_them(world, tmp_path, packing):
    root, texts = world
    made = prepare(root, tmp_path / "all", **PACKINGS[packing])
    gone = {3, 4, 5, 90, 91}
    without = prepare(
        root, tmp_path / "without", keep=lambda text: texts.index(text) not in gone, **PACKINGS[packing]
    )
    less = tokenmill.remove(tmp_path / "all", dict.fromkeys(gone, "takedown"), tmp_path / "less")
    assert less.content_hash == without.content_hash
    account = less.manifest.account
    assert account.documents_dropped == {"takedown": 5}
    assert account.tokens_dropped["takedown"] == sum(len(made[number]) for number in gone)
    assert account.tokens_stored == without.manifest.account.tokens_stored
    account.check()
    old = {shard.name: shard for shard in made.manifest.shards}
    fresh = [shard for shard in less.manifest.shards if shard.name not in old]
    assert 0 < len(fresh) <= 3 < len(old)
    for shard in less.manifest.shards:
        if shard.name in old:
            for entry in shard.files:  # not a byte of these was written
                assert (tmp_path / "all" / entry.path).samefile(tmp_path / "less" / entry.path)
    main(["dataset", "verify", str(tmp_path / "less")])


def test_a_list_of_every_kind(world, tmp_path, capsys):
    root, texts = world
    prepare(root, tmp_path / "all")
    items = [
        f"{root}/c.jsonl:3",
        "# a remark",
        "",
        json.dumps({"id": "k7", "reason": "licence"}),
        json.dumps({"document": 9}),
        json.dumps({"contains": "#11#", "reason": "leaked test set"}),
        json.dumps({"file": "c.jsonl", "row": 13, "reason": "licence"}),
    ]
    (tmp_path / "list").write_text("\n".join(items))
    command = [
        "dataset",
        "remove",
        tmp_path / "all",
        "--documents",
        tmp_path / "list",
        "-o",
        tmp_path / "less",
    ]
    main(list(map(str, command)))
    assert "5 documents" in capsys.readouterr().out
    dropped = tokenmill.open(tmp_path / "less").manifest.account.documents_dropped
    assert dropped == {"removed": 2, "licence": 2, "leaked test set": 1}
    tokenizer = tokenmill.Tokenizer.load(root / "tok")
    left = [tokenizer.decode(ids, skip_special_tokens=True) for ids in tokenmill.open(tmp_path / "less")]
    assert left == [text for nth, text in enumerate(texts) if nth not in {3, 7, 9, 11, 13}]


def test_it_waits_for_another_job_and_refuses_a_dataset_that_grows(world, tmp_path):
    root, _ = world
    made = prepare(root, tmp_path / "all")
    less = tmp_path / "less"
    with ThreadPoolExecutor() as pool:
        with lock_dataset(less):  # as `prepare` holds it
            removal = pool.submit(tokenmill.remove, tmp_path / "all", {1: "x"}, less)
            time.sleep(0.5)
            assert [path.name for path in less.iterdir()] == [".lock"]
        assert len(removal.result()) == len(made) - 1
    plan = load_plan(tmp_path / "all")
    last = plan.units[-1]
    more = replace(last, id="0" * len(last.id), ordinal=last.ordinal + 1)
    save_plan(tmp_path / "all", replace(plan, units=(*plan.units, more)))
    with pytest.raises(DatasetError, match="added to by another job"):
        tokenmill.remove(tmp_path / "all", {1: "x"}, tmp_path / "other")


def test_it_goes_on_where_it_stopped_and_can_grow(world, tmp_path, monkeypatch):
    root, texts = world
    made = prepare(root, tmp_path / "all", deduplicate=True)
    saved = []

    def stop(path, receipt):
        save_receipt(path, receipt)
        saved.append(receipt.shard.name)
        if len(saved) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tokenmill.pipeline.rewrite.save_receipt", stop)
        with pytest.raises(KeyboardInterrupt):
            tokenmill.remove(tmp_path / "all", {0: "x", 300: "x"}, tmp_path / "less")
    with pytest.raises(DatasetError, match="unfinished"):
        tokenmill.open(tmp_path / "less")
    less = tokenmill.remove(tmp_path / "all", {0: "x", 300: "x"}, tmp_path / "less")
    assert len(less) == len(made) - 2
    # A copy of what was taken out does not come back with data that is added later.
    more = tmp_path / "more.jsonl"
    more.write_text(
        json.dumps({"text": texts[0], "key": "a"}) + "\n" + json.dumps({"text": "new", "key": "b"}) + "\n"
    )
    inputs = [str(root / "c.jsonl"), str(more)]
    grown = prepare(root, tmp_path / "less", inputs=inputs, deduplicate=True)
    assert len(grown) == len(less) + 1
    assert grown.manifest.account.documents_dropped == {"duplicate": 1, "x": 2}


def test_what_is_refused(world, tmp_path):
    root, _ = world
    prepare(root, tmp_path / "all")
    rows = prepare(root, tmp_path / "rows", mode="concat", context_length=64, format="arrow")
    lines = tmp_path / "list"
    for text, kind, words in (
        ("", ConfigError, "names no document"),
        ("c.jsonl:4000", DatasetError, "list: row 4,000 of c.jsonl is not a document"),
        ("nonsense", ConfigError, "list: .*is not FILE:ROW"),
        ('{"id": "zz"}', DatasetError, "list: no document .* has the id 'zz'"),
        ('{"contains": "zzz"}', DatasetError, "list: no document of .* contains 'zzz'"),
        ('{"document": 4000}', DatasetError, "there is no document 4,000: the dataset has 400"),
        ('{"document": "4"}', ConfigError, 'list:1: {"document": "4"}: name a document by'),
        ('{"doc": 4}', ConfigError, "list:1: .*: name a document by"),
        ("{", ConfigError, "list:1: not JSON"),
    ):
        lines.write_text(text)
        with pytest.raises(kind, match=words):
            tokenmill.remove(tmp_path / "all", lines, tmp_path / "less")
        assert not Path(tmp_path / "less" / "manifest.json").exists()
    with pytest.raises(DatasetError, match="in the format arrow"):
        tokenmill.remove(rows.path, {1: "x"}, tmp_path / "less")
    with pytest.raises(ConfigError, match="is the dataset itself"):
        tokenmill.remove(tmp_path / "all", {1: "x"}, tmp_path / "all")
    with pytest.raises(ConfigError, match="contains another dataset"):
        tokenmill.remove(tmp_path / "all", {1: "x"}, tmp_path / "rows")
    # Corrupt ids would get a valid hash in a new dataset.
    shard = tmp_path / "all" / tokenmill.open(tmp_path / "all").manifest.shards[0].file("tokens").path
    shard.write_bytes(shard.read_bytes()[:-2] + b"\1\0")
    with pytest.raises(DatasetError, match="has changed since it was written"):
        tokenmill.remove(tmp_path / "all", {1: "x"}, tmp_path / "new")
