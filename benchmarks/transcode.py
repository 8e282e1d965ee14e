"""A dataset of ids for another tokenizer: `transcode` against `prepare` from the raw text and against other tools.

`python benchmarks/transcode.py [--corpora DIR] [--only en,ko] [--scratch DIR]`

The peers read the same ids, decode them and encode the text again, each by its fastest batch call with one
thread; what they give is compared with the new dataset first, and only decoding and encoding is timed. CPU seconds.
"""

import argparse
import shutil
import time
from pathlib import Path

import corpora
import peers
import tokenmill


def timed(work, turns=1):
    """(CPU seconds of the best turn, what the work gave)."""
    best = float("inf")
    for _ in range(turns):
        before = time.process_time()
        made = work()
        best = min(best, time.process_time() - before)
    return best, made


def job(folder, work, **options):
    """A job of ours, twice: the first run with a tokenizer also proves its engine."""
    quiet = {"report": False, "verbose_level": "ERROR", "threads": 1}

    def run():
        shutil.rmtree(folder, ignore_errors=True)
        return work(output=folder, **options, **quiet)

    return timed(run, turns=2)


def make(name, folder, tokenizer, path):
    inputs = str(path / f"{name}.jsonl.zst")
    return job(folder, tokenmill.prepare, inputs=inputs, tokenizer=tokenizer, eos=False, drop_blank=False)


def carry(source, folder, old, new):
    return job(folder, tokenmill.transcode, dataset=source, tokenizer=new, old_tokenizer=old)


def by_tiktoken(old, new, lists):
    before, after = (peers.Tiktoken(name, path, 1).tokenizer for name, path in (old, new))
    return timed(
        lambda: after.encode_ordinary_batch(before.decode_batch(lists, num_threads=1), num_threads=1)
    )


def by_hf(old, new, lists):
    import tokenizers

    before, after = (tokenizers.Tokenizer.from_file(str(path)) for path in (old, new))

    def work():
        texts = before.decode_batch(lists, skip_special_tokens=False)
        return [found.ids for found in after.encode_batch_fast(texts, add_special_tokens=False)]

    return timed(work)


def check(what, made, dataset):
    if any(ids != mine.tolist() for ids, mine in zip(made, dataset, strict=True)):
        raise SystemExit(f"{what} gives other ids")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", default=corpora.CORPORA, type=Path)
    parser.add_argument("--only", default="en,ko")
    parser.add_argument("--scratch", default=Path("benchmarks/scratch/transcode"), type=Path)
    options = parser.parse_args()
    options.scratch.mkdir(parents=True, exist_ok=True)
    files = corpora.vocabulary_files(options.scratch)
    old, other = (tokenmill.Tokenizer.load(files[name]) for name in ("cl100k", "o200k"))
    old_json = peers.json_file("cl100k", files["cl100k"])
    longer = options.scratch / "longer"
    shutil.rmtree(longer, ignore_errors=True)
    korean = str(options.corpora / "ko.jsonl.zst")
    tokenmill.extend(old, korean, add=16000, only_script=["Hangul"], output=longer)
    cases = {
        "its extension": (tokenmill.Tokenizer.load(longer), longer / "tokenizer.json", None),
        "o200k": (other, peers.json_file("o200k", files["o200k"]), files["o200k"]),
    }
    print("| corpus | cl100k to | prepare | transcode | HF | tiktoken |\n|---|---|---|---|---|---|")
    for name in options.only.split(","):
        _, source = make(name, options.scratch / "old", old, options.corpora)
        lists = [ids.tolist() for ids in source]
        for what, (new, as_json, ranks) in cases.items():
            raw, anew = make(name, options.scratch / "anew", new, options.corpora)
            carried, made = carry(options.scratch / "old", options.scratch / "carried", old, new)
            check("transcode", (ids.tolist() for ids in made), anew)
            hf, theirs = by_hf(old_json, as_json, lists)
            check("HF", theirs, made)
            row = [name, what, f"{raw:.2f} s", f"{carried:.2f} s", f"{hf:.1f} s"]
            if ranks is not None:
                seconds, theirs = by_tiktoken(("cl100k", files["cl100k"]), ("o200k", ranks), lists)
                check("tiktoken", theirs, made)
                row.append(f"{seconds:.1f} s")
            print("| " + " | ".join([*row, "-"][:6]) + " |", flush=True)
    shutil.rmtree(options.scratch)


if __name__ == "__main__":
    main()
