"""A dataset written to a real S3 server: the same content as a local one, resumed, shared, read back."""

import json
import pickle
import shutil

import numpy as np
import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer
from corpus import jsonl, write_format
from object_store import bucket, s3_endpoint  # noqa: F401 - fixtures
from records import edit_bytes
from tokenmill.cli import main
from tokenmill.datasets.formats.format import MODULES, find_format
from tokenmill.datasets.remote import Remote
from tokenmill.datasets.store import ObjectStore, cache_directory
from tokenmill.errors import DatasetError, ResumeError, StoreError
from tokenmill.pipeline.commit import commit_directory
from tokenmill.pipeline.prepare import set_up
from tokenmill.pipeline.verify import verify_dataset
from tokenmill.report import dataset as report
from tokenmill.report.dataset import write_report
from tokenmill.settings.resolve import from_options

pytestmark = pytest.mark.s3
OPTIONS = {"unit_bytes": 4000, "text_field": "text", "show_progress": False}


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "in"
    path.mkdir()
    (path / "a.jsonl").write_bytes(jsonl())
    write_format(path, "parquet")
    return path


def prepare(inputs, output, **options):
    return tokenmill.prepare(
        inputs=str(inputs),
        tokenizer=ByteTokenizer(),
        output=str(output),
        threads=2,
        **OPTIONS,
        **options,
    )


@pytest.mark.parametrize(
    "options", [{}, {"context_length": 64, "overlap": 8}, {"deduplicate": True, "format": "parquet"}]
)
def test_the_same_content_as_a_local_dataset(corpus, tmp_path, bucket, options):  # noqa: F811
    local = prepare(corpus, tmp_path / "out", **options)
    remote = prepare(corpus, f"{bucket}/out", **options)
    assert remote.manifest.content_hash == local.manifest.content_hash
    assert remote.manifest.account == local.manifest.account
    assert remote.address == f"{bucket}/out"
    store = ObjectStore(f"{bucket}/out")
    assert len(store.list_sizes("receipts")) == len(local.manifest.shards) > 3
    listed = {entry.path: entry.bytes for shard in remote.manifest.shards for entry in shard.files}
    assert store.list_sizes("shards") == listed
    work = cache_directory(f"{bucket}/out", "work")
    assert not [path for path in (work / "shards").rglob("*") if path.is_file()]


def test_reading_through_the_cache(corpus, tmp_path, bucket):  # noqa: F811
    local = prepare(corpus, tmp_path / "out")
    prepare(corpus, f"{bucket}/out")
    shutil.rmtree(tmp_path / "cache")
    remote = tokenmill.open(f"{bucket}/out")
    assert not list((remote.path).glob("shards/*"))
    np.testing.assert_array_equal(remote[3], local[3])
    assert 0 < len(list(remote.path.glob("shards/*.bin"))) < len(local.manifest.shards)
    for mine, theirs in zip(remote, local, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    rows, other = remote.rows(64), local.rows(64)
    assert len(rows) == len(other)
    np.testing.assert_array_equal(rows[len(rows) - 1], other[len(rows) - 1])
    copy = pickle.loads(pickle.dumps(remote))
    np.testing.assert_array_equal(copy[5], local[5])
    assert bucket in repr(remote)


def test_a_damaged_object_is_noticed(corpus, bucket, tmp_path):  # noqa: F811
    made = prepare(corpus, f"{bucket}/out")
    entry = made.manifest.shards[0].file("tokens")
    ObjectStore(f"{bucket}/out").replace(entry.path, b"short")
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(DatasetError, match="has 5 bytes, the manifest promises"):
        tokenmill.open(f"{bucket}/out")[0]
    with pytest.raises(DatasetError, match="the dataset is not finished"):
        tokenmill.open(f"{bucket}/nothing")


def test_a_job_goes_on_from_the_receipts_in_the_store(corpus, tmp_path, bucket, monkeypatch):  # noqa: F811
    whole = prepare(corpus, tmp_path / "out").manifest
    published = []
    real = Remote.publish

    def publish(self, root, receipt):
        if len(published) == 3:
            raise StoreError("the machine is taken away")
        published.append(receipt.shard.name)
        return real(self, root, receipt)

    monkeypatch.setattr(Remote, "publish", publish)
    with pytest.raises(StoreError, match="taken away"):
        prepare(corpus, f"{bucket}/out")
    store = ObjectStore(f"{bucket}/out")
    assert store.read("manifest.json") is None
    assert len(store.list_sizes("receipts")) == 3
    again = []
    monkeypatch.setattr(
        Remote,
        "publish",
        lambda self, root, receipt: again.append(receipt.shard.name) or real(self, root, receipt),
    )
    monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / "another machine"))
    resumed = prepare(corpus, f"{bucket}/out")
    assert resumed.manifest.content_hash == whole.content_hash
    assert not set(again) & set(published)
    assert len(again) + 3 == len(whole.shards)


def test_two_drivers_agree_or_are_told(corpus, tmp_path, bucket, monkeypatch):  # noqa: F811
    options = OPTIONS | {"inputs": str(corpus), "output": f"{bucket}/out"}
    monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / "one"))
    first = set_up(from_options(None, **options), tokenizer=ByteTokenizer())[""]
    monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / "two"))
    second = set_up(from_options(None, **options), tokenizer=ByteTokenizer())[""]
    other = set_up(from_options(None, **options, min_chars=5), tokenizer=ByteTokenizer())[""]
    one, two = first.lead(), second.lead()
    assert one == two
    with pytest.raises(ResumeError, match=r"different job|other settings"):
        other.lead()
    with pytest.raises(ResumeError, match="min_chars"):
        prepare(corpus, f"{bucket}/out", min_chars=5)


def test_the_part_of_an_array_names_the_address_to_commit(corpus, tmp_path, bucket, capsys):  # noqa: F811
    tokenmill.train_from_iterator(["a few words"], 260, output=tmp_path / "tok", progress=False)
    given = [
        str(corpus),
        "--tokenizer",
        str(tmp_path / "tok"),
        "--text-field",
        "text",
        "--unit-bytes",
        "4000",
    ]
    capsys.readouterr()
    main(["prepare", *given, "--output", f"{bucket}/out", "--unit-range", "0/2"])
    assert f"`tokenmill dataset commit {bucket}/out`" in capsys.readouterr().out
    main(["prepare", *given, "--output", f"{bucket}/out", "--unit-range", "1/2"])
    main(["dataset", "commit", f"{bucket}/out"])
    assert len(tokenmill.open(f"{bucket}/out"))


def test_a_receipt_of_other_bytes_is_a_conflict(corpus, bucket, monkeypatch):  # noqa: F811
    made = prepare(corpus, f"{bucket}/out")
    store = ObjectStore(f"{bucket}/out")
    name = f"receipts/{made.manifest.shards[0].name}.json"
    store.replace(
        name, edit_bytes(store.read(name), lambda receipt: receipt["files"][0].update(sha256="0" * 64))
    )
    store.delete([made.manifest.shards[0].files[0].path, "manifest.json"])
    with pytest.raises(StoreError, match="describes different bytes"):
        prepare(corpus, f"{bucket}/out")


def test_fresh_starts_over(corpus, bucket):  # noqa: F811
    made = prepare(corpus, f"{bucket}/out")
    again = prepare(corpus, f"{bucket}/out", fresh=True, min_chars=100)
    assert again.manifest.content_hash != made.manifest.content_hash
    listed = {entry.path for shard in again.manifest.shards for entry in shard.files}
    assert set(ObjectStore(f"{bucket}/out").list_sizes("shards")) == listed


def test_parts_of_a_plan_on_machines_that_share_only_the_store(corpus, tmp_path, bucket, monkeypatch):  # noqa: F811
    whole = prepare(corpus, tmp_path / "out").manifest
    options = OPTIONS | {"inputs": str(corpus), "output": f"{bucket}/out"}
    outcomes = []
    for part in range(4):
        monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / f"machine {part}"))
        resolved = from_options(None, **options, unit_range=f"{part}/4")
        outcomes.append(set_up(resolved, tokenizer=ByteTokenizer())[""].lead())
    assert [manifest is None for manifest in outcomes] == [True, True, True, False]
    assert outcomes[-1].content_hash == whole.content_hash
    ObjectStore(f"{bucket}/out").delete(["manifest.json"])
    monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path / "machine 9"))
    assert commit_directory(f"{bucket}/out").content_hash == whole.content_hash
    assert tokenmill.open(f"{bucket}/out").content_hash == whole.content_hash


def test_a_remote_dataset_is_verified(corpus, tmp_path, bucket):  # noqa: F811
    made = prepare(corpus, f"{bucket}/out")
    checks = list(verify_dataset(f"{bucket}/out", sample=2, tokenizer=ByteTokenizer()))
    assert {check.state for check in checks} == {"ok"}
    entry = made.manifest.shards[1].file("tokens")
    shutil.rmtree(tmp_path / "cache")
    ObjectStore(f"{bucket}/out").replace(entry.path, bytes(entry.bytes))
    assert "problem" in {check.state for check in verify_dataset(f"{bucket}/out", sample=0)}


def test_a_report_lies_beside_the_shards(corpus, bucket, tmp_path, monkeypatch):  # noqa: F811
    local = prepare(corpus, tmp_path / "out", context_length=64)
    prepare(corpus, f"{bucket}/out", context_length=64)
    store = ObjectStore(f"{bucket}/out")
    page, told = store.read("report.html").decode(), json.loads(store.read("report.json"))
    expected = json.loads((tmp_path / "out" / "report.json").read_text())
    for name in ("path", "documents", "tokens", "account", "sources", "lengths", "vocabulary", "shards"):
        assert told[name] == expected[name], name
    assert "<title>Report of out" in page
    assert "were counted in" not in page
    monkeypatch.setattr(report, "MOST_BYTES", told["bytes"] // 3 + 1)
    shutil.rmtree(tmp_path / "cache")
    assert write_report(f"{bucket}/out") == f"{bucket}/out/report.html"
    some = json.loads(store.read("report.json"))
    assert 0 < some["shards_counted"] < some["shards"] == len(local.manifest.shards)
    assert some["account"] == expected["account"]
    assert len(list((tmp_path / "cache").rglob("*.bin"))) == some["shards_counted"]
    assert "were counted in" in store.read("report.html").decode()


@pytest.mark.parametrize("name", [name for name in MODULES if find_format(name).extra_files])
def test_a_format_with_files_of_its_own_can_be_kept_in_a_store(corpus, bucket, tmp_path, name):  # noqa: F811
    local = prepare(corpus, str(tmp_path / "out"), format=name)
    made = prepare(corpus, f"{bucket}/out", format=name)
    assert made.manifest.content_hash == local.manifest.content_hash
    for name_of_file in find_format(name).extra_files:
        there = json.loads(ObjectStore(f"{bucket}/out").read(name_of_file))
        here = json.loads((tmp_path / "out" / name_of_file).read_bytes())
        assert there.keys() == here.keys()
    assert "problem" not in {check.state for check in verify_dataset(f"{bucket}/out", sample=0)}


def test_blend_inspect_and_convert_take_a_url(corpus, tmp_path, bucket, capsys, monkeypatch):  # noqa: F811
    made = prepare(corpus, f"{bucket}/out", format="megatron")
    prefixes = [f"{bucket}/out/{shard.file('tokens').path}"[: -len(".bin")] for shard in made.manifest.shards]
    capsys.readouterr()
    main(["dataset", "blend", f"{bucket}/out=1"])
    assert capsys.readouterr().out.split()[1::2] == prefixes
    main(["inspect", f"{bucket}/out", "--json"])
    (facts,) = json.loads(capsys.readouterr().out)["datasets"]
    assert facts["content_hash"] == made.content_hash
    main(["dataset", "convert", f"{bucket}/out", str(tmp_path / "local"), "--format", "tokenmill"])
    assert tokenmill.open(tmp_path / "local").num_tokens == made.num_tokens
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["doctor", "--output", f"{bucket}/new", "--json"])
    checks = {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert (checks["output"]["status"], checks["output"]["found"]) == ("ok", f"{bucket}/new can be written")
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(StoreError, match="set AWS_ALLOW_HTTP=true"):
        tokenmill.open(f"{bucket}/out")
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["doctor", "--output", f"{bucket}/new", "--json"])
    assert "set AWS_ALLOW_HTTP=true" in capsys.readouterr().out
