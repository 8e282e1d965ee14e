"""Encode a list and an Arrow array with one tokenizer, look at the offsets, and save it in another format."""

import sys
import tempfile

import pyarrow as pa

from tokenmill import Tokenizer


def main(source):
    tok = Tokenizer.load(source)
    print(tok)

    texts = ["hello world", "안녕하세요 세계", "def f(x): return x ** 2\n"]
    batch = tok.encode_batch(texts)
    assert batch == tok.encode_batch(pa.array(texts), threads=2), "every kind of input gives the same ids"
    assert tok.decode_batch(batch) == texts
    for text, ids in zip(texts, batch, strict=True):
        print(f"{len(text):3} characters -> {len(ids):3} ids  {text!r}")

    ids, places = tok.offsets(texts[0])
    print([(texts[0][start:end], i) for i, (start, end) in zip(ids, places, strict=True)])

    with tempfile.TemporaryDirectory() as folder:
        tok.save(folder, "hf")
        assert Tokenizer.load(folder).encode_batch(texts) == batch
    print("saved and loaded again: the same ids")


if __name__ == "__main__":
    main(sys.argv[1])
