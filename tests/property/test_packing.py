"""Packing loses nothing, whatever the documents, the row length and the blocks in which they arrive."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmill import _core
from tokenmill.datasets.ledger.receipt import Account
from tokenmill.datasets.packing import GroupPacker, RowShape, make_packer
from tokenmill.errors import ConfigError

PAD = 65535
LENGTHS = st.lists(st.integers(0, 40), max_size=30)
CONTEXT = st.integers(1, 17)
CUTS = st.lists(st.integers(0, 30), max_size=5)
COLUMNS = ("attention_mask", "labels", "position_ids", "document_ids")


def corpus(lengths, dtype=np.uint16):
    """Every token is unique, so a lost, doubled or moved one shows."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return np.arange(offsets[-1], dtype=dtype), offsets


def pack(packer, lengths, cuts=()):
    ids, offsets = corpus(lengths)
    bounds = sorted({0, len(lengths), *(cut for cut in cuts if cut < len(lengths))})
    packed = [p for a, b in itertools.pairwise(bounds) for p in packer.push(ids, offsets[a : b + 1])]
    return packed + list(packer.finish())


def joined(packed, name):
    parts = [p.ids if name == "ids" else p.columns[name] for p in packed]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint16)


def shape(context_length, **options):
    return RowShape(context_length, PAD, COLUMNS, **options)


def make(mode, context_length, **options):
    if mode == "bestfit":
        return GroupPacker(shape(context_length, **options), group=50)
    return make_packer(mode, shape(context_length, **options))


@pytest.mark.parametrize("mode", ["concat", "window", "bestfit", "pad"])
@given(lengths=LENGTHS, context_length=CONTEXT, cuts=CUTS, data=st.data())
def test_every_token_once_and_blocks_do_not_matter(mode, lengths, context_length, cuts, data):
    drop = mode in {"concat", "window"} and data.draw(st.booleans())
    overlap = data.draw(st.integers(0, context_length - 1)) if mode == "window" else 0
    options = {"overlap": overlap, "drop_tail": drop}
    whole = pack(make(mode, context_length, **options), lengths)
    parts = pack(make(mode, context_length, **options), lengths, cuts)
    for name in ("ids", *COLUMNS):
        assert np.array_equal(joined(whole, name), joined(parts, name)), name

    rows = joined(whole, "ids")
    assert len(rows) == context_length * sum(p.rows for p in whole)
    mask = joined(whole, "attention_mask").astype(bool)
    kept = rows[mask]
    unique = np.unique(kept)
    read = sum(lengths)
    account = Account()
    for packed in whole:
        account.add(packed.account)
    written, repeated, dropped = (
        account.tokens_written,
        account.tokens_repeated,
        account.tokens_dropped["tail"],
    )
    assert read == written + dropped
    assert len(unique) == written
    assert len(kept) == written + repeated
    assert (~mask).sum() == account.tokens_padding
    if not drop:
        assert dropped == 0
        assert np.array_equal(unique, np.arange(read))
    if mode != "window":
        assert repeated == 0


@pytest.mark.parametrize("mode", ["concat", "window", "bestfit", "pad"])
@given(lengths=LENGTHS, context_length=CONTEXT)
def test_columns_say_what_the_rows_hold(mode, lengths, context_length):
    packed = pack(make(mode, context_length), lengths)
    rows, mask = joined(packed, "ids"), joined(packed, "attention_mask")
    owner = np.repeat(np.arange(len(lengths)), lengths)
    if not len(rows):
        assert not any(lengths)
        return
    assert mask.dtype == np.int8
    assert np.array_equal(joined(packed, "labels"), np.where(mask == 1, rows.astype(np.int64), -100))
    documents = joined(packed, "document_ids")
    assert np.array_equal(documents[mask == 1], owner[rows[mask == 1]])
    assert (documents[mask == 0] == -1).all()
    positions = joined(packed, "position_ids")
    fresh = np.ones(len(rows), dtype=bool)
    fresh[1:] = (np.diff(documents) != 0) | (np.arange(1, len(rows)) % context_length == 0)
    assert (positions[fresh] == 0).all()
    assert (positions[~fresh & (mask == 1)] == positions[np.flatnonzero(~fresh & (mask == 1)) - 1] + 1).all()


@given(length=st.integers(1, 200), context_length=CONTEXT, data=st.data())
def test_windows_overlap_exactly(length, context_length, data):
    overlap = data.draw(st.integers(0, context_length - 1))
    packed = pack(make("window", context_length, overlap=overlap), [length])
    rows = joined(packed, "ids").reshape(-1, context_length)
    for before, after in itertools.pairwise(rows):
        assert np.array_equal(before[context_length - overlap :], after[:overlap])
    assert rows[0, 0] == 0
    assert length - 1 in rows[-1]


@given(lengths=LENGTHS, context_length=CONTEXT)
def test_bestfit_keeps_documents_whole_where_they_fit(lengths, context_length):
    packed = pack(make("bestfit", context_length), lengths)
    whole = np.array([length for length in lengths if 0 < length <= context_length])
    segments = [s for p in packed for s in zip(p.segments.document, p.segments.length, strict=True)]
    short = [length for document, length in segments if lengths[document] <= context_length]
    assert sorted(short) == sorted(whole)


@given(lengths=LENGTHS, bos=st.none() | st.just(7), eos=st.none() | st.just(9), wide=st.booleans())
def test_frames(lengths, bos, eos, wide):
    ids, offsets = corpus(lengths, np.uint32)
    framed, ends = _core.frame_documents(ids, offsets, bos, eos, wide)
    assert framed.dtype == (np.uint32 if wide else np.uint16)
    expected = [[x for x in (bos, *ids[a:b], eos) if x is not None] for a, b in itertools.pairwise(offsets)]
    assert [framed[a:b].tolist() for a, b in itertools.pairwise(ends)] == expected
    assert (np.diff(ends) >= 0).all()


def test_ids_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="does not fit in 16 bits"):
        _core.frame_documents(np.array([70000], np.uint32), np.array([0, 1]), None, None, wide=False)
    with pytest.raises(ConfigError, match="makes no rows"):
        make_packer("stream", shape(4))
