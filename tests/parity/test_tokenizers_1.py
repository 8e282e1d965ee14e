"""With `tokenizers` 1.x installed: the same ids as with 0.x, and a clear error for what it lacks."""

import json
import os
import subprocess

import pytest
from configurations import CORPUS, built
from test_configurations import DOCS
from tokenizers import Tokenizer as HF
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from tokenizers_environment import ROOT, WHY_NOT, tokenizers_1_python

CHILD = """
import json, sys
from tokenmill import Tokenizer, TokenmillError
from tokenmill.tokenizer.parity import check_parity
texts = json.load(sys.stdin)
tokenizer = Tokenizer.load(sys.argv[1])
found = {"strategy": tokenizer.strategy.name, "skipped": check_parity(tokenizer, texts).skipped}
other = tokenizer.with_strategy("huggingface")
for special in ("parse", "text"):
    found[special] = other.encode_lists(texts, special=special)
    assert other.encode_batch(texts, special=special).to_lists() == found[special]
try:
    other.offsets("the cat")
except TokenmillError as error:
    found["offsets"] = str(error)
print(json.dumps(found))
"""


def word_piece():
    hf = HF(models.WordPiece(unk_token="[UNK]"))
    hf.normalizer, hf.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    hf.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=900, special_tokens=special, show_progress=False)
    )
    hf.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return hf


@pytest.mark.parametrize("name", ["gpt2", "llama2", "word-piece"])
def test_encodes_as_with_0_x(name, tmp_path):
    python = tokenizers_1_python()
    if python is None:
        pytest.skip(WHY_NOT)
    hf = word_piece() if name == "word-piece" else built(name)
    path = tmp_path / "tokenizer.json"
    path.write_text(hf.to_str(), encoding="utf-8")
    done = subprocess.run(
        [python, "-c", CHILD, path],
        input=json.dumps(DOCS[::3]),
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    )
    found = json.loads(done.stdout)
    assert found["strategy"] == ("huggingface" if name == "word-piece" else "native")
    assert (found["skipped"] is None) == (name != "word-piece")
    assert "which has no offsets" in found["offsets"]
    for special in ("text", "parse"):  # the last one is the state in which the shared object stays
        hf.encode_special_tokens = special == "text"
        want = [encoding.ids for encoding in hf.encode_batch(DOCS[::3], add_special_tokens=False)]
        assert found[special] == want
