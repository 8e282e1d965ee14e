"""Invalid files give an error message or a dataset that counts what it dropped; never a traceback, an abort or unbounded memory."""

from pathlib import Path

import hostile
import pytest
from harness import last_words
from jobs import write_tokenizer

ROOT = Path(__file__).parent.parent.parent
LIMIT = 1 << 30
# The 64 MiB of one letter in the bombs become tokens of up to 64 MiB. Merging holds some 15 bytes for each letter
# of such a piece, and saving it spells its tokens: up to 30 times the piece (docs/reliability.md).
TRAINING_LIMIT = 2 << 30
POLICIES = ("fail", "skip", "replace")


def judge(run, limit=LIMIT):
    if run.hung:
        return [("hang", f"did not end in {run.seconds:.0f} s")]
    if run.traceback:
        return [("traceback", f"exit {run.code}: {last_words(run)}")]
    if run.mute:
        return [("mute", f"exit {run.code}")]
    if run.memory > limit:
        return [("wrong", f"took {run.memory >> 20} MiB")]
    return []


def read_file(campaign, path, policy):
    place = campaign.new_place()
    tokenizer = campaign.root / "tokenizer"
    argv = ["prepare", path, "--tokenizer", tokenizer, "--output", place / "out", "--on-error", policy]
    options = ["--no-show-progress", "--max-errors", 1_000_000, "--text-field", "text", "--no-report"]
    return judge(campaign.run([*argv, *options], timeout=120))


def train_on(campaign, path):
    place = campaign.new_place()
    argv = ["train", path, "--output", place / "out", "--vocab-size", 300, "--quiet", "--text-field", "text"]
    return judge(campaign.run(argv, timeout=120), TRAINING_LIMIT)


def load_tokenizer(campaign, path):
    words = campaign.root / "words.txt"
    return judge(campaign.run(["encode", words, "--tokenizer", path], timeout=120))


@pytest.fixture(scope="module")
def feed(campaign):
    """`feed(files, work, tally)`: write each file and give it to `work`; a line for each promise that was broken."""
    write_tokenizer(campaign, campaign.root)
    (campaign.root / "words.txt").write_text("the cat sat on the mat, 안녕 1234")

    def run(files, work, tally):
        place = campaign.new_place()
        paths = []
        for name, data in files:
            path = place / name / name
            path.parent.mkdir()
            path.write_bytes(data)
            paths.append(path)
        broken = []
        for path, problems in zip(
            paths, campaign.each(lambda path: work(campaign, path), paths), strict=True
        ):
            broken += tally.add(path.name, problems)
        return broken

    return run


def every(files, nth):
    return list(files)[::nth]


def test_some_bad_records(feed, tally):
    files = every([*hostile.records(), *hostile.archives(), *hostile.tables()], 9)
    assert not feed(files, lambda c, path: read_file(c, path, "skip"), tally("hostile records, a few"))


def test_some_bad_tokenizers(feed, tally):
    files = [file for file in hostile.tokenizers() if file[0].startswith("model")]
    assert not feed(every(files, 9), load_tokenizer, tally("hostile tokenizers, a few"))


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["records", "archives", "tables"])
def test_bad_records(feed, tally, kind, policy):
    files = getattr(hostile, kind)()
    assert not feed(files, lambda c, path: read_file(c, path, policy), tally(f"hostile {kind}"))


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["records", "archives", "tables"])
def test_training_on_bad_records(feed, tally, kind):
    assert not feed(getattr(hostile, kind)(), train_on, tally(f"hostile {kind}, train"))


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_bad_tokenizers(feed, tally):
    assert not feed(hostile.tokenizers(), load_tokenizer, tally("hostile tokenizers"))


def fuzzed(target, ending):
    """What the fuzz targets start from and what they have found since, as files of this kind."""
    found = [
        path for folder in ("seeds", "corpus") for path in sorted((ROOT / "fuzz" / folder / target).glob("*"))
    ]
    return [(f"{number}{ending}", path.read_bytes()) for number, path in enumerate(found[:2000])]


@pytest.mark.deep
@pytest.mark.timeout(14_400)
def test_what_fuzzing_found(feed, tally):
    figures = tally("hostile files from fuzzing")
    skip = lambda c, path: read_file(c, path, "skip")  # noqa: E731
    broken = feed(fuzzed("json_lines", ".jsonl"), skip, figures)
    broken += feed([(name, data[1:]) for name, data in fuzzed("csv", ".csv")], skip, figures)
    for ending in (".json", ".tiktoken"):
        broken += feed(fuzzed("tokenizer_files", ending), load_tokenizer, figures)
    assert not broken
