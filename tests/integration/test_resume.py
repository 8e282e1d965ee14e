"""Resume, incremental inputs, --fresh, --dry-run, and everything that must be noticed."""

import json
import os

import pytest
from click.testing import CliRunner
from test_determinism import tree_hash, write_corpus

import tokenmill
from byte_tokenizer import ByteTokenizer, prepare_bytes
from tokenmill.errors import ConfigError, InputError, InputNotFoundError, RejectLimitError, ResumeError
from tokenmill.pipeline.prepare import set_up
from tokenmill.settings.resolve import from_options


@pytest.fixture
def corpus(tmp_path):
    place = tmp_path / "in"
    place.mkdir()
    write_corpus(place / "a.jsonl", 200, 1)
    return place


def run(corpus, output, tokenizer=None, **options):
    return prepare_bytes(corpus, output, tokenizer=tokenizer, **{"unit_bytes": 10_000} | options)


def shard_times(output):
    return {path.name: path.stat().st_mtime_ns for path in (output / "shards").iterdir()}


def test_a_finished_job_is_opened_not_done_again(corpus, tmp_path):
    first = run(corpus, tmp_path / "out")
    before = shard_times(tmp_path / "out")
    second = run(corpus, tmp_path / "out")
    assert shard_times(tmp_path / "out") == before
    assert first.content_hash == second.content_hash


def test_new_inputs_add_units(corpus, tmp_path):
    output = tmp_path / "out"
    first = run(corpus, output, deduplicate=True)
    before = shard_times(output)
    write_corpus(corpus / "0-sorts-first.jsonl", 200, 1)  # the same documents again
    write_corpus(corpus / "b.jsonl", 100, 3)
    second = run(corpus, output, deduplicate=True)
    assert second.manifest.shards[: len(first.manifest.shards)] == first.manifest.shards
    assert {name: when for name, when in shard_times(output).items() if name in before} == before
    assert len(second.manifest.inputs) == 3
    assert second.manifest.account.documents_dropped["duplicate"] >= first.manifest.documents


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"eos": False}, "packing.eos"),
        ({"min_chars": 3}, "filter.min_chars"),
        ({"tokenizer": ByteTokenizer(salt="other")}, "tokenizer.fingerprint"),
        ({"keep": lambda text: len(text) > 3}, "filter.function"),
        ({"unit_bytes": 20_000}, "output.unit_bytes"),
        ({"format": "npy"}, "output.format"),
    ],
)
def test_changed_settings_are_named(corpus, tmp_path, options, field):
    run(corpus, tmp_path / "out")
    with pytest.raises(ResumeError, match=field):
        run(corpus, tmp_path / "out", **options)
    run(corpus, tmp_path / "out", fresh=True, **options)
    assert (tmp_path / "out" / "manifest.json").exists()


def test_another_default_view_changes_the_manifest_only(corpus, tmp_path):
    first = run(corpus, tmp_path / "out")
    before = shard_times(tmp_path / "out")
    second = run(corpus, tmp_path / "out", context_length=16, packing="bestfit", columns=("labels",))
    assert second.manifest.shards == first.manifest.shards
    assert shard_times(tmp_path / "out") == before
    rows = second.rows()
    assert (rows.context_length, rows.view.packing, rows.columns) == (16, "bestfit", ("labels",))
    assert len(run(corpus, tmp_path / "out", context_length=8).rows()) > len(rows)
    run(corpus, tmp_path / "npy", context_length=16, format="npy")
    with pytest.raises(ResumeError, match=r"packing\.context_length"):
        run(corpus, tmp_path / "npy", context_length=8, format="npy")


def test_changed_and_vanished_inputs_are_noticed(corpus, tmp_path):
    write_corpus(corpus / "b.jsonl", 50, 2)
    run(corpus, tmp_path / "out")
    os.utime(corpus / "b.jsonl", ns=(1, 1))
    with pytest.raises(ResumeError, match=r"b\.jsonl has changed"):
        run(corpus, tmp_path / "out")
    (corpus / "b.jsonl").unlink()
    with pytest.raises(ResumeError, match=r"b\.jsonl is part of this dataset"):
        run(corpus, tmp_path / "out")


def test_a_first_try_that_did_nothing_binds_nobody(corpus, tmp_path):
    """What the error advises must work: drop the record, or repair it, in the same output."""
    (corpus / "b.jsonl").write_text('{"text": "low"}\n{broken\n')
    output, good = tmp_path / "out", (corpus / "a.jsonl").read_bytes()
    (corpus / "a.jsonl").unlink()
    with pytest.raises(InputError, match="broken JSON"):
        run(corpus, output)
    assert (output / "plan.json").exists()
    skipped = run(corpus, output, on_error="skip")
    assert skipped.content_hash == run(corpus, tmp_path / "new", on_error="skip").content_hash
    with pytest.raises(ResumeError, match=r"on_error \(was 'skip', now 'fail'\)"):
        run(corpus, output)
    with pytest.raises(InputError, match="broken JSON"):
        run(corpus, tmp_path / "repaired")
    (corpus / "b.jsonl").write_bytes(good)
    other = ByteTokenizer(salt="other")
    run(corpus, tmp_path / "repaired", tokenizer=other)
    assert tree_hash(tmp_path / "repaired") == tree_hash_of_fresh(corpus, tmp_path / "fresh", other)


def tree_hash_of_fresh(corpus, output, tokenizer):
    run(corpus, output, tokenizer=tokenizer)
    return tree_hash(output)


def test_a_plan_that_another_process_began_meanwhile_stands(corpus, tmp_path):
    """Ours was made while nothing was done; before it is published, a unit of the other's plan has its receipt."""
    output = tmp_path / "out"
    run(corpus, output)
    receipts = sorted((output / "receipts").iterdir())
    kept = receipts[0].read_bytes()
    for path in [output / "manifest.json", *receipts]:
        path.unlink()
    options = {"inputs": str(corpus), "output": str(output), "verbose_level": "ERROR"}
    late = set_up(from_options(min_chars=3, **options), tokenizer=ByteTokenizer())[""]
    late.plan()
    receipts[0].write_bytes(kept)
    with pytest.raises(ResumeError, match="min_chars"):
        late.execute()
    assert receipts[0].read_bytes() == kept


def test_fresh_leaves_other_files_alone(corpus, tmp_path):
    output = tmp_path / "out"
    run(corpus, output)
    (output / "notes.txt").write_text("mine")
    run(corpus, output, fresh=True, context_length=16)
    assert (output / "notes.txt").read_text() == "mine"
    fresh = tree_hash(output)
    run(corpus, tmp_path / "other", context_length=16)
    (tmp_path / "other" / "notes.txt").write_text("mine")
    assert tree_hash(tmp_path / "other") == fresh


def test_num_shards(corpus, tmp_path):
    write_corpus(corpus / "b.jsonl", 50, 2)
    for count in (1, 2, 5, 8):
        dataset = run(corpus, tmp_path / f"out{count}", num_shards=count)
        assert len(dataset.manifest.shards) == count
        assert dataset.manifest.documents == run(corpus, tmp_path / "out1", num_shards=1).manifest.documents


def test_limits_on_rejects(corpus, tmp_path):
    with (corpus / "a.jsonl").open("a") as file:
        file.write('{"text": 3}\n{broken\n')
    with pytest.raises(InputError, match=r"a\.jsonl:201"):
        run(corpus, tmp_path / "fail")
    dataset = run(corpus, tmp_path / "skip", on_error="skip")
    assert dataset.manifest.account.rejected == {"not_a_string": 1, "broken_json": 1}
    assert len(dataset.manifest.rejects) == 2
    assert run(corpus, tmp_path / "two", on_error="skip", max_errors=2).content_hash == dataset.content_hash
    with pytest.raises(RejectLimitError, match="max_errors 1") as over:
        run(corpus, tmp_path / "one", on_error="skip", max_errors=1)
    assert over.value.exit_code == 3
    assert (tmp_path / "one" / "manifest.json").exists()


def test_what_is_missing_is_said(corpus, tmp_path):
    with pytest.raises(ConfigError, match="no output directory"):
        tokenmill.prepare(inputs=str(corpus), tokenizer=ByteTokenizer())
    with pytest.raises(ConfigError, match="no tokenizer"):
        tokenmill.prepare(inputs=str(corpus), output=str(tmp_path / "out"))
    with pytest.raises(InputNotFoundError, match="no such file"):
        run(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_keep_is_a_filter_with_a_count(corpus, tmp_path):
    dataset = run(corpus, tmp_path / "out", keep=lambda text: "감마" in text)
    account = dataset.manifest.account
    assert account.documents_dropped["function"] > 0
    assert all("감마" in ByteTokenizer().decode(document) for document in dataset)


def test_progress_is_left_for_those_who_watch(corpus, tmp_path):
    run(corpus, tmp_path / "out")
    progress = json.loads((tmp_path / "out" / "progress.json").read_text())
    assert progress["state"] == "done"
    assert progress["units_done"] == progress["units_total"] > 2


def test_dry_run_writes_nothing(corpus, tmp_path, monkeypatch):
    from tokenmill.cli.prepare import prepare as command

    monkeypatch.setattr("tokenmill.pipeline.prepare.load_tokenizer", lambda *_: ByteTokenizer())
    arguments = [str(corpus), "--tokenizer", "x", "--output", str(tmp_path / "out"), "--unit-bytes", "10kB"]
    shown = CliRunner().invoke(command, [*arguments, "--dry-run", "--verbose-level", "error"])
    assert shown.exit_code == 0, shown.output
    assert "nothing was written" in shown.output
    as_json = CliRunner().invoke(command, [*arguments, "--dry-run", "--json", "--verbose-level", "error"])
    assert len(json.loads(as_json.stdout)["units"]) > 2
    assert not (tmp_path / "out").exists()
    done = CliRunner().invoke(command, [*arguments, "--json", "--verbose-level", "error"])
    assert json.loads(done.stdout)["documents"] > 100


def test_special_strings_in_documents_are_text_and_counted(tmp_path):
    lines = ["a <|endoftext|> b <|endoftext|>", "<s>", "none"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    dataset = run(tmp_path / "a.jsonl", tmp_path / "out")
    assert dataset.manifest.account.special_strings == 3
    assert [ByteTokenizer().decode(document) for document in dataset] == lines
