"""Merges equal a recount at every step, whatever the threads, blocks, budget or interruption."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from tokenmill import _core
from tokenmill.base.texts import Texts
from tokenmill.errors import InputError
from tokenmill.settings.schema import TrainingConfig
from tokenmill.training.counting import Counting
from tokenmill.training.merging import FIRST_SEEN, Checkpoint, merge, train_merges

TEXT = st.text(st.sampled_from("aaab  c'st12,\n한국中文é"), max_size=60)
TEXTS = st.lists(TEXT, max_size=12)
TIES = ["huggingface", "lexicographic"]


def pairs(merged):
    return [(merged.tokens[left], merged.tokens[right]) for left, right in merged.merges]


@pytest.mark.parametrize("tie_break", TIES)
@given(texts=TEXTS, extra=st.integers(0, 40), least=st.integers(0, 3), longest=st.none() | st.integers(1, 6))
def test_merges_equal_a_recount_at_every_step(tie_break, texts, extra, least, longest):
    options = TrainingConfig(
        vocab_size=256 + extra,
        special_tokens=(),
        min_frequency=least,
        max_token_length=longest,
        tie_break=tie_break,
    )
    merged = train_merges(iter(texts), options)
    expected = reference.train(reference.pieces_of(texts), 256 + extra, tie_break, least, longest)
    assert pairs(merged) == expected


def flat(texts):
    return Texts.from_arrow(pa.array(texts, pa.large_string()))


@given(
    texts=TEXTS,
    threads=st.integers(1, 3),
    block=st.integers(1, 5),
    budget=st.sampled_from([1, 200_000, 1 << 30]),
)
def test_threads_blocks_and_budget_change_nothing(tmp_path_factory, texts, threads, block, budget):
    folder = tmp_path_factory.mktemp("spill")
    options = TrainingConfig(vocab_size=300, special_tokens=("<|end|>", "c'"))
    counting = Counting(options, threads=threads, memory_budget=budget, spill_dir=str(folder))
    for start in range(0, len(texts), block):
        counting.count(flat(texts[start : start + block]))
    counted = counting.finish()
    assert not list(folder.iterdir()) or counted.spilled_bytes
    merged = merge(counted, options, checkpoint=Checkpoint(None))
    expected = reference.train(reference.pieces_of(texts, options.special_tokens), 298)
    assert pairs(merged) == expected
    assert not list(folder.iterdir())


def first_seen(texts, *, vocab_size=300, threads=1, block=1, budget=1 << 30, folder="."):
    """The merges of texts brought in blocks, where ties go to the pair that they have first."""
    options = TrainingConfig(vocab_size=vocab_size)
    counting = Counting(options, threads=threads, memory_budget=budget, spill_dir=str(folder), in_order=True)
    for start in range(0, len(texts), block):
        counting.count(flat(texts[start : start + block]))
    counts = counting.finish().counts
    merger = _core.PairMerger(counts, vocab_size, 0, 1, 2**32 - 1, tie_break=FIRST_SEEN, unify=True)
    merger.advance(1 << 20)
    tokens = merger.tokens()
    return [(tokens[left], tokens[right]) for left, right in merger.merges()]


@given(
    texts=TEXTS,
    threads=st.integers(1, 3),
    block=st.integers(1, 5),
    budget=st.sampled_from([1, 200_000, 1 << 30]),
)
def test_what_was_seen_first_is_kept_whatever_the_blocks_and_the_budget(
    tmp_path_factory, texts, threads, block, budget
):
    folder = tmp_path_factory.mktemp("spill")
    merges = first_seen(texts, threads=threads, block=block, budget=budget, folder=folder)
    assert merges == reference.train(reference.pieces_of(texts), 300, FIRST_SEEN)


def test_what_was_seen_first_is_kept_where_threads_share_one_text(tmp_path):
    """Some megabytes, so that threads take parts of one text; every word occurs equally often: all are ties."""
    words = [f" {a}{b}{c}" for a in "bcdfgh" for b in "aeiou" for c in "nrst"]
    text = "".join("".join(random.Random(round_).sample(words, len(words))) for round_ in range(9000))
    expected = reference.train(reference.pieces_of([text]), 420, FIRST_SEEN)
    assert expected != reference.train(reference.pieces_of([text]), 420)
    for threads, budget in ((1, 1 << 30), (3, 1 << 30), (3, 1)):
        found = first_seen([text, text], vocab_size=420, threads=threads, budget=budget, folder=tmp_path)
        assert found == expected, (threads, budget)


def test_counts_without_the_order_of_the_texts_are_refused():
    options = TrainingConfig(vocab_size=290)
    ordered = Counting(options, threads=1, memory_budget=1 << 30, spill_dir=".", in_order=True)
    with pytest.raises(InputError, match="do not say which piece came first"):
        ordered.add_counts(flat(["ab"]), np.array([2], np.uint64))
    plain = Counting(options, threads=1, memory_budget=1 << 30, spill_dir=".")
    with pytest.raises(InputError, match="needs counts that record which piece came first"):
        merge(plain.finish(), options, checkpoint=Checkpoint(None), own_tie_break=FIRST_SEEN)


@given(texts=TEXTS, cut=st.integers(0, 30))
def test_a_resumed_run_ends_alike(texts, cut):
    options = TrainingConfig(vocab_size=290, special_tokens=())

    def merger():
        counting = Counting(options, threads=1, memory_budget=1 << 30, spill_dir=".")
        counting.count(flat(texts))
        return _core.PairMerger(
            counting.finish().counts, 290, 0, 1, 2**32 - 1, tie_break="huggingface", unify=True
        )

    whole, first, second = merger(), merger(), merger()
    whole.advance(1000)
    first.advance(cut)
    second.replay(first.steps())
    second.advance(1000)
    assert whole.merges() == second.merges()
    assert np.array_equal(whole.counts(), second.counts())


@given(texts=TEXTS, least=st.integers(2, 4))
def test_rare_pieces_are_left_out_before_merging(texts, least):
    merged = train_merges(
        iter(texts), TrainingConfig(vocab_size=280, special_tokens=(), min_piece_frequency=least)
    )
    kept = {piece: count for piece, count in reference.pieces_of(texts).items() if count >= least}
    assert pairs(merged) == reference.train(kept, 280)


def test_merges_of_real_prose_equal_the_reference():
    text = (reference.__doc__ + reference.train.__doc__ + "def train(pieces):\n    return pieces\n") * 3
    texts = [text, "하나 둘 셋 하나 둘", "一二三一二 三", "-" * 37, " " * 61 + "x"]
    for tie_break in TIES:
        merged = train_merges(
            iter(texts), TrainingConfig(vocab_size=420, special_tokens=(), tie_break=tie_break), threads=2
        )
        assert pairs(merged) == reference.train(reference.pieces_of(texts), 420, tie_break)
