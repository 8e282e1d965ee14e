"""Run where `tokenizers` 1.x is: each tokenizer.json of a folder by both strategies, against the ids beside it.

Prints one line of JSON: for each file its strategy, and the first document whose ids differ, if any.
"""

import json
import sys
from pathlib import Path

from tokenmill import Tokenizer, TokenmillError
from tokenmill.tokenizer.parity import check_parity


def examine(path, docs):
    want = json.loads(path.with_suffix(".ids").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.load(path)
    found = {"strategy": tokenizer.strategy.name}
    for name in ("auto", "fast"):
        try:
            found[name] = _differs(tokenizer.with_strategy(name), docs, want)
        except TokenmillError as error:
            found[name] = str(error)
    found["skipped"] = check_parity(tokenizer, docs["parse"][:50]).skipped
    return found


def _differs(tokenizer, docs, want):
    for special in ("parse", "text"):
        got = tokenizer.encode_lists(docs[special], special=special)
        if got != tokenizer.encode_batch(docs[special], special=special).to_lists():
            return f"{special}: lists and arrays are not the same"
        rows = zip(docs[special], got, want[special], strict=True)
        for doc, mine, theirs in rows:
            if mine != theirs:
                return f"{special} {doc!r}: {mine} and not {theirs}"
    return None


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    texts = json.loads((folder / "docs").read_text(encoding="utf-8"))
    files = sorted(folder.glob("*.json"))
    print(json.dumps({path.stem: examine(path, texts) for path in files}))
