"""Extended vocabularies of each family over every document of the corpora, against Hugging Face `tokenizers`.

`python benchmarks/extend_parity.py [CORPORA] [--names qwen,mistral] [--most 1000]`

Each base gets 16,000 tokens from the Korean corpus with `--only-script Hangul`, and keeps the ids of English and code.
Then all documents are encoded by the extended tokenizer, by the base and by Hugging Face from the written
`tokenizer.json`. Says how many differ from Hugging Face, and how many kept documents changed, in addition to the
certificate.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import tokenizers

import parity

sys.path.insert(0, str(parity.ROOT / "tests" / "parity"))
KEPT = ("en", "code")


def check(name, corpora, most):
    from test_extend import BASES

    import tokenmill

    with tempfile.TemporaryDirectory(prefix="extend-parity-") as scratch:
        folder = Path(scratch)
        base = tokenmill.Tokenizer.load(BASES[name](folder / "base"))
        files = {path.name.partition(".")[0]: path for path in corpora}
        options = {"only_script": ["Hangul"], "keep_ids": [files[kept] for kept in KEPT]}
        tokenmill.extend(base, files["ko"], add=16000, output=folder / "out", **options)
        extended = tokenmill.Tokenizer.load(folder / "out")
        peer = tokenizers.Tokenizer.from_file(str(folder / "out" / "tokenizer.json"))
        proof = json.loads((folder / "out" / "extension.json").read_text(encoding="utf-8"))["certificate"]
        shutil.rmtree(folder / "out")
        total, differ, changed = count(base, extended, peer, files, most)
    told = f"{differ} differ from HF, {changed} of {proof['documents']:,} kept ones changed"
    print(f"{name:<10} {total:>7,} documents  {told} (certificate: {proof['changed']})", flush=True)
    return differ + changed + proof["changed"]


def count(base, extended, peer, files, most):
    total = differ = changed = 0
    for corpus, path in files.items():
        for texts in parity.documents(path, most):
            theirs = peer.encode_batch_fast(texts.to_pylist(), add_special_tokens=False)
            ours = extended.encode_batch(texts, special="parse").to_lists()
            total += len(ours)
            differ += sum(mine != found.ids for mine, found in zip(ours, theirs, strict=True))
            if corpus in KEPT:
                pairs = zip(
                    base.encode_batch(texts, special="text").to_lists(),
                    extended.encode_batch(texts, special="text").to_lists(),
                    strict=True,
                )
                changed += sum(before != after for before, after in pairs)
    return total, differ, changed


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="?", default=parity.ROOT.parent / "shared" / "corpora", type=Path)
    parser.add_argument("--names", default="qwen,cl100k,llama3,mistral")
    parser.add_argument("--most", type=int, default=0, help="Only this many documents of each corpus.")
    options = parser.parse_args()
    corpora = sorted(options.corpora.glob("*.jsonl.zst"))
    sys.exit(sum(check(name, corpora, options.most) for name in options.names.split(",")) > 0)


if __name__ == "__main__":
    main()
