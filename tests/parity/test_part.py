"""Hugging Face with a part of a real vocabulary gives the ids that it gives with the whole."""

import json

from torture import mixtures, texts
from vocabularies import case

from tokenmill import Tokenizer
from tokenmill.engine.parity.part import part_for


def test_parts_of_gpt2(tmp_path):
    case("gpt2")[0].save(tmp_path, format="hf")
    saved = Tokenizer.load(tmp_path)
    whole = saved.with_strategy("fast")
    docs = [*texts(), *mixtures(20)]
    for sample in (docs, docs[:7], docs[100:101], ['\\ "quoted" \'tis'], [""]):
        part = part_for(saved.recipe, sample)
        assert len(json.loads(part.hf.spelled())["model"]["vocab"]) < saved.vocab_size
        found = Tokenizer(part, "fast").encode_batch(sample, special="text").to_lists()
        assert found == whole.encode_batch(sample, special="text").to_lists()
