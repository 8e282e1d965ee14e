"""Datasets by their hub names, with the real client against a hub on loopback."""

import io
import json
import os
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tokenmill
from hub_server import TOKEN, serve
from small_tokenizers import write_bpe

pytest.importorskip("datasets")

TEXTS = [f"the document {number} is in the other one " * 6 for number in range(400)]


def parquet(texts, group=50):
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), sink, row_group_size=group, compression="none")
    return sink.getvalue()


@pytest.fixture
def hub(tmp_path):
    with serve() as (hub, url):
        hub.url = url
        hub.environ = {
            key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))
        } | {
            "HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "TOKENMILL_CACHE": str(tmp_path / "cache"),
            "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONPATH": os.pathsep.join(sys.path),
        }  # fmt: skip
        yield hub


@pytest.fixture
def tokenizer(tmp_path):
    return write_bpe(tmp_path / "bpe")


def run(hub, *arguments, timeout=100, **environ):
    command = [sys.executable, "-m", "tokenmill", *map(str, arguments)]
    return subprocess.run(command, env=hub.environ | environ, capture_output=True, text=True, timeout=timeout, check=False)  # fmt: skip


def prepare(hub, name, tokenizer, output, *flags, **environ):
    return run(
        hub, "prepare", name, "--tokenizer", tokenizer, "--output", output, "--no-report", *flags, **environ
    )


def files_of(texts=TEXTS):
    return {
        "README.md": b"---\nlicense: mit\n---\n",
        "data/train-00000-of-00002.parquet": parquet(texts[:250]),
        "data/train-00001-of-00002.parquet": parquet(texts[250:]),
        "data/test-00000-of-00001.parquet": parquet(["a test"]),
    }


def documents(path):
    return [list(ids) for ids in tokenmill.open(path)]


def test_by_name_as_from_the_files(hub, tokenizer, tmp_path):
    sha = hub.add("org/corpus", files_of())
    done = prepare(hub, "org/corpus", tokenizer, tmp_path / "out", "--split", "train", "--unit-bytes", "40KB")
    assert done.returncode == 0, done.stderr
    for name, data in files_of().items():
        path = tmp_path / "local" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    local = prepare(
        hub,
        tmp_path / "local" / "data" / "train-*",
        tokenizer,
        tmp_path / "from-files",
        "--unit-bytes",
        "40KB",
    )
    assert local.returncode == 0, local.stderr
    found, want = (
        json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("out", "from-files")
    )
    assert found["content_hash"] == want["content_hash"]
    assert len(found["shards"]) > 2
    assert all(f"org/corpus@{sha}/data/train-" in each["path"] for each in found["inputs"])
    assert any("resolve" in line and "bytes=" in line for line in hub.requests)


def test_a_revision_that_moved(hub, tokenizer, tmp_path):
    first = hub.add("org/corpus", files_of())
    hub.add("org/corpus", files_of(TEXTS[:300]))
    old = prepare(hub, "org/corpus", tokenizer, tmp_path / "old", "--split", "train", "--revision", first)
    assert old.returncode == 0, old.stderr
    assert len(documents(tmp_path / "old")) == 400
    new = prepare(hub, "hf://datasets/org/corpus", tokenizer, tmp_path / "new", "--split", "train")
    assert new.returncode == 0, new.stderr
    assert len(documents(tmp_path / "new")) == 300
    again = prepare(hub, f"hf://datasets/org/corpus@{first}", tokenizer, tmp_path / "old", "--split", "train")
    assert again.returncode == 0, again.stderr
    assert len(documents(tmp_path / "old")) == 400
    moved = prepare(hub, "org/corpus", tokenizer, tmp_path / "old", "--split", "train")
    assert moved.returncode != 0
    assert "Traceback" not in moved.stderr


def test_private_with_and_without_a_token(hub, tokenizer, tmp_path):
    hub.add("org/secret", files_of(), private=True)
    done = prepare(hub, "org/secret", tokenizer, tmp_path / "out", "--split", "train")
    assert done.returncode != 0
    assert "needs a token (hf auth login, or HF_TOKEN)" in done.stderr
    assert "Traceback" not in done.stderr
    done = prepare(hub, "org/secret", tokenizer, tmp_path / "out", "--split", "train", HF_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr


CARD = b"""---
configs:
- config_name: first
  data_files: a/*
- config_name: second
  data_files:
  - split: train
    path: [b/*]
---
"""


def test_subsets_by_card_and_by_folder(hub, tokenizer, tmp_path):
    files = {"README.md": CARD, "a/x.parquet": parquet(["one"]), "b/y.parquet": parquet(["two", "three"])}
    hub.add("org/carded", files)
    hub.add(
        "org/folders", {"en/train/0.parquet": parquet(["one"]), "ko/train/0.parquet": parquet(["둘", "셋"])}
    )
    for name, subset in (("org/carded", "second"), ("org/folders", "ko")):
        out = tmp_path / subset
        done = prepare(hub, name, tokenizer, out, "--subset", subset)
        assert done.returncode == 0, done.stderr
        assert len(documents(out)) == 2
    done = prepare(hub, "org/carded", tokenizer, tmp_path / "no", "--subset", "zh")
    assert "'zh' not found. Available: ['first', 'second']" in done.stderr
    download(hub, "org/carded")
    for environ in ({}, {"HF_HUB_OFFLINE": "1"}):
        done = prepare(hub, "org/carded", tokenizer, tmp_path / "no", **environ)
        assert done.returncode != 0
        assert "Please pick one among the available configs: ['first', 'second']" in done.stderr
        done = prepare(
            hub, "org/carded", tokenizer, tmp_path / f"first{len(environ)}", "--subset", "first", **environ
        )
        assert done.returncode == 0, done.stderr
        assert len(documents(tmp_path / f"first{len(environ)}")) == 1


def test_the_conversion_of_a_dataset_with_a_script(hub, tokenizer, tmp_path):
    hub.add("org/script", {"script.py": b"x", "README.md": b""})
    made = {f"{subset}/train/0000.parquet": parquet([subset]) for subset in ("en", "ko")}
    hub.add("org/script", made, branch="refs/convert/parquet")
    done = prepare(hub, "org/script", tokenizer, tmp_path / "out", "--subset", "ko")
    assert done.returncode == 0, done.stderr
    assert len(documents(tmp_path / "out")) == 1


def download(hub, name):
    code = f"from huggingface_hub import snapshot_download; snapshot_download({name!r}, repo_type='dataset')"
    fetched = subprocess.run([sys.executable, "-c", code], env=hub.environ, capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert fetched.returncode == 0, fetched.stderr


def test_what_cannot_be_had_is_told_in_three_lines(hub, tokenizer, tmp_path):
    hub.add("org/corpus", files_of())
    hub.add("org/script", {"script.py": b"x", "README.md": b""})
    for name, flags, environ, words in (
        ("org/nothing", (), {}, "no such dataset on the hub that can be read"),
        ("org/corpus", ("--revision", "v9"), {}, "Revision Not Found"),
        ("org/script", (), {}, "no such dataset on the hub that can be read"),
        ("org/corpus", (), {"HF_HUB_OFFLINE": "1"}, "hf download org/corpus"),
        ("org/corpus", (), {"HF_ENDPOINT": "http://127.0.0.1:9"}, "set HF_HUB_OFFLINE=1"),
    ):
        done = prepare(hub, name, tokenizer, tmp_path / "out", *flags, **environ)
        assert done.returncode != 0
        assert words in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) <= 6, done.stderr


def test_offline_from_the_cache(hub, tokenizer, tmp_path):
    hub.add("org/corpus", files_of())
    download(hub, "org/corpus")
    done = prepare(hub, "org/corpus", tokenizer, tmp_path / "out", "--split", "train", HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert len(documents(tmp_path / "out")) == 400


def test_a_tokenizer_from_the_hub_is_named_as_such(hub, tokenizer, tmp_path):
    place = tmp_path / "hf" / "hub" / "models--org--bpe"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    shutil.copytree(tokenizer, place / "snapshots" / ("0" * 40))
    (tmp_path / "a.txt").write_text("some text")
    done = prepare(hub, tmp_path / "a.txt", "org/bpe", tmp_path / "out", HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert "INFO: Tokenizer org/bpe is from the Hugging Face Hub" in done.stderr


def opened_from(hub, name):
    """How many documents a dataset has that is downloaded and opened as its card says."""
    code = f"import tokenmill; from huggingface_hub import snapshot_download; print(len(tokenmill.open(snapshot_download({name!r}, repo_type='dataset'))))"
    opened = subprocess.run(
        [sys.executable, "-c", code], env=hub.environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert opened.returncode == 0, opened.stderr
    return int(opened.stdout)


def test_push_and_open_again(hub, tokenizer, tmp_path):
    hub.add("org/corpus", files_of())
    assert prepare(hub, "org/corpus", tokenizer, tmp_path / "out", "--split", "train").returncode == 0
    refused = run(hub, "dataset", "push", tmp_path / "out", "org/tokens")
    assert (refused.returncode != 0, "log in with a token that may write" in refused.stderr) == (True, True)
    assert "Traceback" not in refused.stderr
    hub.full = True
    failed = run(hub, "dataset", "push", tmp_path / "out", "org/tokens", HF_TOKEN=TOKEN)
    assert (failed.returncode != 0, "Traceback" in failed.stderr) == (True, False)
    assert "the hub did not take the dataset" in failed.stderr
    hub.full = False
    done = run(hub, "dataset", "push", tmp_path / "out", "org/tokens", HF_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    files = hub.commits["org/tokens"][-1][1]
    assert b"| tokenizer | " in files["README.md"]
    assert b'tokenmill.open(snapshot_download("org/tokens"' in files["README.md"]
    assert opened_from(hub, "org/tokens") == 400
    bad = run(hub, "dataset", "push", tmp_path / "out", "tokens", HF_TOKEN=TOKEN)
    assert "expected ORG/NAME" in bad.stderr
