"""What the mixin for the `Trainer` of transformers cannot do is refused."""

from types import SimpleNamespace

import pytest

import tokenmill
from byte_tokenizer import prepare_bytes
from tokenmill.compat.transformers import FeedMixin
from tokenmill.errors import ConfigError

TEXTS = [f"document {number} " * 5 for number in range(30)]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    root = tmp_path_factory.mktemp("out")
    prepare_bytes(None, root, dataset=TEXTS)
    return root


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
