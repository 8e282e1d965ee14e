"""mds, litdata and megatron, token for token by the libraries that train on them.

They need torch, so they are installed with it in an environment of their own (`torch_environment.py`), without their dozens of
dependencies, in versions that know Debian's torch.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from test_formats import LENGTH, corpus, documents, rows, run  # noqa: F401 - fixtures

from torch_environment import HOME, WHY_NOT, environ, torch_python

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
PLACE = HOME / "readers"
READERS = [
    "litdata==0.2.17", "mosaicml-streaming==0.7.6", "megatron-core==0.5.0", "lightning_utilities<1",
    "transformers==4.35.2", "huggingface_hub==0.19.4", "tokenizers==0.15.2", "safetensors", "regex", "tqdm",
    "filelock", "packaging", "requests", "urllib3<3", "certifi", "charset_normalizer", "idna", "boto3",
    "botocore", "jmespath", "s3transfer", "python-dateutil", "six", "xxhash", "zstd", "python-snappy",
    "cramjam", "Brotli", "azure-core",
]  # fmt: skip


@cache
def why_not():
    """Why the libraries cannot be had here, or None once they are installed."""
    python = torch_python()
    if python is None:
        return WHY_NOT
    stamp = PLACE / ".ready"
    if stamp.exists() and stamp.read_text() == repr(READERS):
        return None
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*pip, "--target", str(PLACE), "--upgrade", *READERS], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return f"the readers cannot be installed: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
    stamp.write_text(repr(READERS))
    return None


def read(kind, directory, *more):
    if reason := why_not():
        pytest.skip(reason)
    script = Path(__file__).with_name("read_with.py")
    variables = environ() | {"HF_HUB_OFFLINE": "1", "HOME": str(directory)}
    variables["PYTHONPATH"] = os.pathsep.join([str(PLACE), variables["PYTHONPATH"]])
    command = [torch_python(), str(script), kind, str(directory), *map(str, more)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_mds(corpus, documents, tmp_path):  # noqa: F811
    run(corpus, tmp_path, format="mds")
    assert read("mds", tmp_path) == documents


def test_litdata(corpus, rows, tmp_path):  # noqa: F811
    # Torch has no uint16 in the version that Debian has.
    run(corpus, tmp_path, format="litdata", context_length=LENGTH, dtype="int32")
    assert np.array_equal(read("litdata", tmp_path, LENGTH), rows[0])


def test_megatron(corpus, documents, tmp_path):  # noqa: F811
    run(corpus, tmp_path, format="megatron")
    assert read("megatron", tmp_path) == documents


@pytest.fixture(scope="module")
def chats(tmp_path_factory):
    """Conversations, their tokenizer, and ids and masks as our own format has them."""
    import tokenmill
    from chat_tokenizers import write_chat

    folder = tmp_path_factory.mktemp("chats")
    say = "The answer {} ".format
    records = [
        {
            "messages": [
                {"role": "user", "content": f"Q {n}"},
                {"role": "assistant", "content": say(n) * (1 + n % 5)},
            ]
        }
        for n in range(30)
    ]
    options = {
        "dataset": records,
        "tokenizer": str(write_chat(folder / "t")),
        "report": False,
        "parity_check": False,
    }
    made = tokenmill.prepare(output=folder / "ours", verbose_level="ERROR", **options)
    ids = [made[n].tolist() for n in range(len(made))]
    return options, ids, [made.loss_mask(n).astype(int).tolist() for n in range(len(made))]


@pytest.mark.parametrize("multiple_of", [1, 8])
def test_megatron_takes_packed_sequences(corpus, tmp_path, multiple_of):  # noqa: F811
    """Its rotary embedding gives each token the position that `position_ids` has."""
    columns = ("cu_seqlens", "position_ids", "attention_mask")
    view = {"packing": "bestfit", "multiple_of": multiple_of, "columns": columns}
    batch = next(iter(run(corpus, tmp_path / "out").rows(256, **view).batches(4, shuffle=True)))
    bounds = batch.get("cu_seqlens_padded", batch["cu_seqlens"]).tolist()
    given = {"bounds": bounds, "max_seqlen": batch["max_seqlen"], "tokens": 4 * 256}
    (tmp_path / "batch.json").write_text(json.dumps(given))
    found = np.array(read("megatron-packed", tmp_path)).reshape(4, 256)
    mask = batch["attention_mask"] == 1
    assert np.array_equal(found[mask], batch["position_ids"][mask])


@pytest.mark.parametrize("kind", ["mds", "litdata", "megatron"])
def test_loss_masks(chats, tmp_path, kind):
    import tokenmill

    options, ids, masks = chats
    dtype = {"dtype": "int32"} if kind == "litdata" else {}
    tokenmill.prepare(output=tmp_path, format=kind, verbose_level="ERROR", **options, **dtype)
    found = read(f"{kind}-masks", tmp_path)
    assert found["ids"] == ids
    assert found["masks"] == masks
