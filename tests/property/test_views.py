"""Every view holds each token once or counts it as dropped, whatever the documents and the row length."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenmill
from small_datasets import write_documents
from tokenmill import _core
from tokenmill.datasets.order import deal_groups
from tokenmill.datasets.packing import RowPacker
from tokenmill.datasets.views import make_view

PAD = 60_000
COLUMNS = ("attention_mask", "labels", "position_ids", "document_ids", "cu_seqlens")
LENGTHS = st.lists(st.integers(0, 40), max_size=30)
TOO_LONG = st.sampled_from([None, "drop", "truncate", "keep-last"])


@st.composite
def views(draw, packings=("concat", "bestfit", "separate", "aligned")):
    """Options of `rows`, with all that can be combined."""
    packing = draw(st.sampled_from(packings))
    multiple = draw(st.integers(1, 4))
    length = multiple * draw(st.integers(1, 17))
    found = {"context_length": length, "packing": packing, "multiple_of": multiple}
    if packing == "aligned":
        return found | {"packing": "bestfit", "bos_aligned": True}
    found["too_long"] = draw(TOO_LONG)
    if packing == "bestfit":
        return found | {"max_documents": draw(st.none() | st.integers(1, 3))}
    found["tail"] = draw(st.sampled_from(["drop", "pad"]))
    if packing == "separate" or (multiple == 1 and found["too_long"] is None):
        found["overlap"] = draw(st.integers(0, length - 1))
    return found


def open_numbered(folder, shards, **options):
    """Every token has a number of its own, so a lost, doubled or moved one shows."""
    numbers = itertools.count()
    documents = [[[next(numbers) for _ in range(length)] for length in shard] for shard in shards]
    return tokenmill.open(write_documents(folder, documents, dtype="uint32", pad_id=PAD, **options))


def make_rows(data, options):
    short = options["packing"] == "concat" and options.get("tail") == "drop"
    if short and options["context_length"] > data.num_tokens:
        options = options | {"tail": "pad"}
    return data.rows(**options, dtype="int64", columns=COLUMNS)


@settings(max_examples=150)
@given(shards=st.lists(LENGTHS, min_size=1, max_size=3), options=views(), data=st.data())
def test_every_token_is_in_a_row_or_counted(shards, options, data):
    with tempfile.TemporaryDirectory() as folder:
        dataset = open_numbered(folder, shards)
        rows = make_rows(dataset, options)
        batch = rows.gather(np.arange(len(rows)))
        account = rows.account()
        # Rows one by one, and in any order, are the same rows.
        order = np.array(data.draw(st.permutations(range(len(rows)))), dtype=np.int64)
        again = rows.gather(order)
        assert all(np.array_equal(again[name], batch[name][order]) for name in ("input_ids", *COLUMNS[:-1]))
        assert [row.tolist() for row in rows] == batch["input_ids"].tolist()
        found = [rows.find_documents(np.array([number])) for number in range(len(dataset))]
        spans = [rows.spans(row) for row in range(len(rows))]
        texts = [document.tolist() for document in dataset]
    ids, mask = batch["input_ids"], batch["attention_mask"].astype(bool)
    unique = np.unique(ids[mask])
    assert len(unique) + rows.dropped_tokens == dataset.num_tokens
    assert account["written"] == len(unique)
    assert account["repeated"] == mask.sum() - len(unique)
    assert account["padding"] == (~mask).sum()
    if not rows.view.overlap:
        assert account["repeated"] == 0
    can_drop = options.get("too_long") or options.get("bos_aligned") or rows.view.tail == "drop"
    assert can_drop or not rows.dropped_tokens
    if options.get("bos_aligned"):
        assert all(place == 0 for _, _, _, place in np.concatenate([*spans, np.empty((0, 4), int)]))
        assert mask.all() or rows.view.multiple_of > 1
    # Spans say what the rows hold, and documents say which rows hold them.
    holders = [set() for _ in texts]
    for row, parts in enumerate(spans):
        for document, place, length, start in parts.tolist():
            assert ids[row, place : place + length].tolist() == texts[document][start : start + length]
            assert place % rows.view.multiple_of == 0
            holders[document].add(row)
        assert sum(length for _, _, length, _ in parts.tolist()) == mask[row].sum()
        if options.get("max_documents"):
            assert len(parts) <= options["max_documents"]
    assert [set(rows.tolist()) for rows in found] == holders


@settings(max_examples=80)
@given(lengths=LENGTHS, options=views())
def test_columns_and_cu_seqlens_agree(lengths, options):
    with tempfile.TemporaryDirectory() as folder:
        rows = make_rows(open_numbered(folder, [lengths]), options)
        batch = rows.gather(np.arange(len(rows)))
    ids, mask, length = batch["input_ids"], batch["attention_mask"] == 1, rows.context_length
    owner = np.repeat(np.arange(len(lengths)), lengths)
    assert np.array_equal(batch["labels"], np.where(mask, ids, -100))
    assert np.array_equal(batch["document_ids"][mask], owner[ids[mask]])
    assert (batch["document_ids"][~mask] == -1).all()
    assert (batch["position_ids"][~mask] == 0).all()
    flat, positions = mask.reshape(-1), batch["position_ids"].reshape(-1)
    begins = batch.get("cu_seqlens_padded", batch["cu_seqlens"])
    sizes = np.diff(batch["cu_seqlens"])
    assert begins[0] == 0
    assert begins[-1] == len(flat)
    assert set(range(0, len(flat), length)) <= set(begins.tolist())
    assert batch["max_seqlen"] == np.diff(begins).max(initial=0)
    if rows.view.multiple_of > 1:
        assert not (begins % rows.view.multiple_of).any()
        assert sizes.sum() == flat.sum()
    for begin, size in zip(begins, sizes, strict=False):
        if flat[begin : begin + size].any():
            assert flat[begin : begin + size].all()
            assert positions[begin : begin + size].tolist() == list(range(size))


@settings(max_examples=60)
@given(lengths=LENGTHS, options=views(), cuts=st.lists(st.integers(0, 30), max_size=5))
def test_formats_that_hold_rows_get_the_rows_of_the_view(lengths, options, cuts):
    """Whatever the blocks in which documents arrive."""
    with tempfile.TemporaryDirectory() as folder:
        dataset = open_numbered(folder, [lengths])
        rows = make_rows(dataset, options)
        expected = rows.gather(np.arange(len(rows)))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    packer = RowPacker(rows.view, PAD, COLUMNS[:-1], marked=False)
    bounds = sorted({0, len(lengths), *(cut for cut in cuts if cut < len(lengths))})
    ids = np.arange(offsets[-1], dtype=np.uint32)
    made = [items for a, b in itertools.pairwise(bounds) for items in packer.push(ids, offsets[a : b + 1])]
    made += packer.finish()
    for name in ("input_ids", *COLUMNS[:-1]):
        parts = [{"input_ids": items.ids, **items.columns}[name] for items in made]
        assert np.array_equal(np.concatenate([np.empty(0, int), *parts]), expected[name].reshape(-1)), name
    account = packer.account
    assert account.tokens_written + account.tokens_dropped.total() == offsets[-1]
    assert account.documents_written + account.documents_dropped.total() == len(lengths)
    assert account.tokens_written == rows.account()["written"]
    assert account.tokens_repeated == rows.account()["repeated"]
    assert account.tokens_padding == rows.account()["padding"]


@pytest.mark.parametrize("packing", ["concat", "bestfit", "separate"])
def test_groups_do_not_depend_on_blocks(packing, monkeypatch, tmp_path):
    monkeypatch.setattr("tokenmill.datasets.views.GROUP_TOKENS", 100)
    monkeypatch.setattr("tokenmill.datasets.views.GROUP_ROWS", 1)
    monkeypatch.setattr("tokenmill.datasets.layout._AT_ONCE", 7)
    lengths = np.random.default_rng(3).integers(0, 30, 200)
    rows = open_numbered(tmp_path, [lengths.tolist()]).rows(16, packing=packing, tail="pad", pad_id=PAD)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = np.arange(offsets[-1], dtype=np.uint32)
    for block in (1, 13, 200):
        packer = RowPacker(rows.view, PAD, (), marked=False)
        made = [
            items for at in range(0, 200, block) for items in packer.push(ids, offsets[at : at + block + 1])
        ]
        found = np.concatenate([items.ids for items in (*made, *packer.finish())]).reshape(-1, 16)
        assert found.tolist() == [row.tolist() for row in rows]


@given(
    lengths=LENGTHS,
    options=views(("bestfit", "separate")),
    world=st.integers(1, 7),
    batch=st.integers(1, 3),
    balance=st.booleans(),
)
@settings(max_examples=60)
def test_ranks_see_disjoint_rows(lengths, options, world, batch, balance):
    with tempfile.TemporaryDirectory() as folder:
        rows = make_rows(open_numbered(folder, [lengths]), options)
        if not len(rows):
            return
        feeds = [
            rows.batches(batch, shuffle=True, seed=5, rank=rank, world_size=world, balance=balance)
            for rank in range(world)
        ]
        seen = [tuple(row.tolist()) for feed in feeds for each in feed for row in each["input_ids"]]
        assert sorted(seen) == sorted(tuple(row.tolist()) for row in rows)


def test_balanced_ranks_have_equal_work_and_no_bias(tmp_path):
    lengths = np.random.default_rng(4).lognormal(2.4, 1.15, 200_000).astype(int).clip(1, 4000)
    rows = open_numbered(tmp_path, [lengths.tolist()]).rows(64, packing="bestfit")
    work = rows.measure_work(np.arange(len(rows)))
    assert work[7] == (rows.spans(7)[:, 2] ** 2).sum()

    def deal(seed, *, balance):
        order = rows.batches(1, shuffle=True, seed=seed, balance=balance).order
        return work[order.rows(np.arange(len(rows)))] / work.mean()

    slowest = []
    for balance in (False, True):
        steps = deal(1, balance=balance)[: len(rows) // 64 * 64].reshape(-1, 64)
        slowest.append((steps.max(axis=1) / steps.mean(axis=1)).mean())
    assert slowest[0] > 1.5
    assert slowest[1] < 1.01
    epochs = [deal(seed, balance=True) for seed in range(12)]
    worst = [max(abs(part.mean() - 1) for part in np.array_split(epoch, 3)) for epoch in epochs]
    assert max(worst) < 0.04
    assert np.mean(worst) < 0.02
    # The share of rows above the median work, in each tenth of an epoch.
    shares = [
        abs((part > np.median(epoch)).mean() - 0.5) for epoch in epochs for part in np.array_split(epoch, 10)
    ]
    assert max(shares) < 0.15


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=300).map(sorted), st.integers(0, 1 << 64))
def test_groups_are_dealt_once_and_evenly(work, key):
    dealt = deal_groups(np.array(work), key)
    assert sorted(dealt) == list(range(len(work)))
    mean = np.mean(work)
    sums = np.concatenate([[0], np.cumsum(np.array(work)[dealt] - mean)])
    # Any part differs from the mean by at most twice the work by which one group does.
    assert sums.max() - sums.min() <= 2 * max(abs(mean - work[0]), work[-1] - mean) * (1 + 1e-9)


@settings(max_examples=30)
@given(
    worlds=st.lists(
        st.tuples(st.integers(1, 7), st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=4
    ),
    lengths=st.lists(st.integers(1, 40), min_size=20, max_size=60),
)
def test_a_balanced_run_resumes_at_any_world_size(worlds, lengths):
    with tempfile.TemporaryDirectory() as folder:
        rows = open_numbered(folder, [lengths]).rows(40, packing="bestfit")
        state, seen = None, []
        for nth, (world, batch, steps) in enumerate([*worlds, (1, 4, 10_000)]):
            feeds = [
                rows.batches(batch, shuffle=True, seed=2, rank=rank, world_size=world, balance=True)
                for rank in range(world)
            ]
            for feed in feeds:
                if state is not None:
                    feed.load_state_dict(state)
            readers = [iter(feed) for feed in feeds]
            for _ in range(steps):
                left = len(rows) - feeds[0].position
                if nth < len(worlds) and left <= world * batch:
                    break
                batches = [next(reader, None) for reader in readers]
                if batches[0] is None:
                    break
                seen += [tuple(row.tolist()) for each in batches if each for row in each["input_ids"]]
            state = feeds[0].state_dict()
        assert sorted(seen) == sorted(tuple(row.tolist()) for row in rows)


def test_best_fit_keeps_documents_whole_and_rows_full(tmp_path):
    lengths = np.random.default_rng(1).lognormal(6, 1, 3000).astype(int).clip(1, 9000)
    data = open_numbered(tmp_path, [lengths.tolist()])
    rows = data.rows(2048, packing="bestfit", pad_id=0)
    spans = np.concatenate([rows.spans(row) for row in range(len(rows))])
    whole = spans[lengths[spans[:, 0]] <= 2048]
    assert sorted(whole[:, 2]) == sorted(lengths[lengths <= 2048])
    assert rows.account()["padding"] < 0.005 * data.num_tokens
    full = data.rows(2048, packing="bestfit", bos_aligned=True)
    assert full.account()["padding"] == 0
    assert full.dropped_tokens < 0.35 * data.num_tokens


@given(lengths=LENGTHS, bos=st.none() | st.just(7), eos=st.none() | st.just(9), wide=st.booleans())
def test_frames(lengths, bos, eos, wide):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = np.arange(offsets[-1], dtype=np.uint32)
    framed, ends = _core.frame_documents(ids, offsets, bos, eos, wide)
    assert framed.dtype == (np.uint32 if wide else np.uint16)
    expected = [[x for x in (bos, *ids[a:b], eos) if x is not None] for a, b in itertools.pairwise(offsets)]
    assert [framed[a:b].tolist() for a, b in itertools.pairwise(ends)] == expected


def test_ids_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="does not fit in 16 bits"):
        _core.frame_documents(np.array([70000], np.uint32), np.array([0, 1]), None, None, wide=False)


def test_names_of_earlier_versions():
    views = [make_view(context_length=8, packing=name) for name in ("window", "pad", "stream", "concat")]
    assert [view.packing for view in views] == ["separate", "separate", "concat", "concat"]


def test_index_files(tmp_path, caplog, monkeypatch):
    """An index is kept, found again, and computed again if a bit of it changed or it cannot be written."""
    folder = Path(tmp_path) / "data"
    data = open_numbered(folder, [[5, 9, 2, 30], [7, 7, 1]])
    expected = [row.tolist() for row in data.rows(16, packing="bestfit")]
    files = sorted((folder / "views").iterdir())
    assert len(files) == 2
    times = [path.stat().st_mtime_ns for path in files]
    assert [row.tolist() for row in tokenmill.open(folder).rows(16, packing="bestfit")] == expected
    assert [path.stat().st_mtime_ns for path in files] == times
    content = files[0].read_bytes()
    for place in (10, 70, len(content) - 3):
        broken = bytearray(content)
        broken[place] ^= 4
        files[0].write_bytes(broken)
        caplog.clear()
        assert [row.tolist() for row in tokenmill.open(folder).rows(16, packing="bestfit")] == expected
        assert "computed again" in caplog.text
        assert files[0].read_bytes() == content
    # A dataset that cannot be written to has its indexes in the cache directory.
    monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / "cache"))
    (folder / "views").rename(folder / "old")
    (folder / "views").write_text("in the way")
    assert [row.tolist() for row in tokenmill.open(folder).rows(16, packing="bestfit")] == expected
    assert len(list((tmp_path / "cache" / "views").iterdir())) == 2
    assert [row.tolist() for row in tokenmill.open(folder).rows(16, packing="bestfit")] == expected
    (folder / "views").unlink()
    (folder / "old").rename(folder / "views")
    files[0].write_bytes(content[:20])
    assert [row.tolist() for row in tokenmill.open(folder).rows(16, packing="bestfit")] == expected
