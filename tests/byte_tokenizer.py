"""A tokenizer that is short enough to trust: one id per byte, and three special tokens. For tests of jobs."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa

SPECIAL = {"<|endoftext|>": 256, "<s>": 257, "<pad>": 258}


class ByteTokenizer:
    """Ids are bytes; `wide` pretends to a vocabulary that needs 32 bits."""

    special_tokens = SPECIAL
    strategy = SimpleNamespace(name="native", reason="one id per byte")
    # Nothing to compare with, and every document goes through `encode_batch`.
    engine = SimpleNamespace(native=False)

    def __init__(self, *, wide=False, salt="bytes"):
        self.vocab_size = 70_000 if wide else 259
        self.fingerprint = f"{salt}-{self.vocab_size}"

    def special_id(self, role):
        return {"eos": 256, "bos": 257, "pad": 258}.get(role)

    def encode_batch(self, docs, *, special="text", threads=None):
        array = docs.to_arrow() if hasattr(docs, "to_arrow") else pa.array(docs, pa.large_string())
        offsets = np.zeros(1, dtype=np.int64)
        data = np.empty(0, dtype=np.uint8)
        if len(array):
            _, raw, content = array.buffers()
            offsets = np.frombuffer(raw, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
            if content is not None:
                data = np.frombuffer(content, dtype=np.uint8)[offsets[0] : offsets[-1]]
        dtype = np.uint16 if self.vocab_size <= 1 << 16 else np.uint32
        return SimpleNamespace(ids=data.astype(dtype), offsets=offsets - offsets[0])

    def decode(self, ids, **_):
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids):
        return bytes(int(i) for i in ids if i < 256)


def prepare_bytes(inputs, output, *, tokenizer=None, **options):
    """Prepare a dataset with this tokenizer, without log lines or report; `inputs` is None where `dataset` is given."""
    import tokenmill

    given = {} if inputs is None else {"inputs": inputs if isinstance(inputs, list) else str(inputs)}
    quiet = {"verbose_level": "ERROR", "show_progress": False, "report": False}
    return tokenmill.prepare(
        tokenizer=tokenizer or ByteTokenizer(), output=str(output), **given, **quiet | options
    )
