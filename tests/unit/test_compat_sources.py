"""The small sources for torchtitan, Grain and Lightning: what their loaders ask of a source."""

import pickle
from types import SimpleNamespace

import pytest

import tokenmill
from byte_tokenizer import prepare_bytes
from tokenmill.compat import grain, lightning, torchtitan
from tokenmill.compat.transformers import FeedMixin
from tokenmill.errors import ConfigError, MissingExtraError

TEXTS = [f"document {number} " * 5 for number in range(30)]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    root = tmp_path_factory.mktemp("out")
    prepare_bytes(None, root, dataset=TEXTS)
    return root


def test_torchtitan_gets_documents(out):
    source = torchtitan.TokenmillSource(out)
    assert len(source) == len(TEXTS)
    assert [source[i]["input_ids"].tolist() for i in (0, 7)] == [[*TEXTS[i].encode(), 256] for i in (0, 7)]
    assert source[0]["input_ids"].dtype == "int64"


def test_grain_gets_rows(out):
    source = grain.TokenmillSource(out, 32)
    flat = [token for text in TEXTS for token in (*text.encode(), 256)]
    assert len(source) == (len(flat) - 1) // 32
    for index in (0, 3):
        assert source[index]["inputs"].tolist() == flat[32 * index : 32 * index + 32]
        assert source[index]["targets"].tolist() == flat[32 * index + 1 : 32 * index + 33]
    again = pickle.loads(pickle.dumps(source))
    assert again[2]["inputs"].tolist() == source[2]["inputs"].tolist()


def test_lightning_is_named_where_it_is_missing(out, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "lightning", None)
    with pytest.raises(MissingExtraError, match="pip install lightning"):
        lightning.data_module(out, 32, 4)


def test_lightning_batches(out, monkeypatch):
    """With a stand-in for the base class, which brings nothing that we use; torch is its own."""
    import sys

    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "lightning", SimpleNamespace(LightningDataModule=object))
    batch = next(iter(lightning.data_module(out, 32, 4, num_workers=0).train_dataloader()))
    assert batch["input_ids"].shape == batch["labels"].shape == (4, 32)


@pytest.mark.parametrize(
    ("accumulation", "parallel", "message"),
    [(64, 1, r"has \d+ rows, and one step reads 256"), (1, 2, "tensor, context or sequence parallel group")],
)
def test_what_the_mixin_for_transformers_cannot_do_is_refused(out, accumulation, parallel, message):
    class Trainer(FeedMixin):
        args = SimpleNamespace(
            process_index=0, world_size=2, seed=1, data_seed=None, gradient_accumulation_steps=accumulation
        )
        accelerator = SimpleNamespace(parallelism_config=SimpleNamespace(non_data_parallel_size=parallel))
        train_dataset = tokenmill.open(out).rows(32)
        _train_batch_size = 2

    with pytest.raises(ConfigError, match=message):
        Trainer().get_train_dataloader()
