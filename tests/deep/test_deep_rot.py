"""A byte that changed on the disk is found by `tokenmill.open` or `verify`, and reported."""

import contextlib
import io
import json
import os
import random
import shutil
import traceback

import pytest
from harness import Run, last_words, spread
from jobs import FORMATS, JOBS, Prepare

import tokenmill
import tokenmill.cli

# Every byte before a resume by default; `DEEP_MOST=300` takes three hundred of each file, spread over it.
MOST = int(os.environ.get("DEEP_MOST", "1000000"))
DATASETS = {
    "tokenmill": Prepare("rot-tokenmill", ("--provenance", "--deduplicate")),
    "rows": Prepare("rot-rows", ("--packing", "bestfit", "--context-length", 64, "--columns", "labels")),
    **{name: Prepare(f"rot-{name}", ("--format", name)) for name in FORMATS[1:]},
}


@pytest.fixture(scope="module")
def dataset(campaign):
    """`dataset("arrow")` -> the directory of a finished dataset, and what it must still be afterwards."""

    def make(kind):
        root = campaign.root / "rot" / kind
        if not root.exists():
            job = DATASETS[kind]
            inputs = campaign.root / "inputs" / job.name
            job.make(campaign, inputs)
            run = campaign.run(job.argv(inputs, root), timeout=300)
            assert run.code == 0, run.err
        return root

    return make


def look(root):
    """Return whether opening and verifying the dataset reports the change, and what is wrong with the report."""
    try:
        tokenmill.open(root)
    except tokenmill.TokenmillError as error:
        return True, [] if str(error).strip() else [("mute", "open said nothing")]
    except Exception as error:  # noqa: BLE001
        return True, [("traceback", f"open: {error!r}")]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            tokenmill.cli.main(["dataset", "verify", str(root), "--sample", "0"])
    except SystemExit as leave:
        return leave.code != 0, [] if said.getvalue().strip() else [("mute", "verify said nothing")]
    except Exception as error:  # noqa: BLE001
        return True, [("traceback", f"verify: {error!r}")]
    return False, []


def try_change(root, path, data, label, tally):
    """Put other bytes in a file's place, look, and put the old ones back."""
    old = path.read_bytes()
    path.write_bytes(data)
    try:
        noticed, problems = look(root)
    finally:
        path.write_bytes(old)
    if not noticed:
        problems = [("wrong", "neither open nor verify noticed")]
    return tally.add(f"{root.name}: {path.relative_to(root)} {label}", problems)


def is_same_value(old, new):
    """Accept another spelling of the same JSON."""
    try:
        return json.loads(old) == json.loads(new)
    except ValueError:
        return False


def shard_files(root):
    named = {
        entry["path"]
        for shard in json.loads((root / "manifest.json").read_text())["shards"]
        for entry in shard["files"]
    }
    return sorted(root / name for name in named)


def flip_bits(root, tally, tries):
    chosen, broken = random.Random(root.name), []
    files = [path for path in shard_files(root) if path.stat().st_size]
    for _ in range(tries):
        path = chosen.choice(files)
        data = bytearray(path.read_bytes())
        at, bit = chosen.randrange(len(data)), chosen.randrange(8)
        data[at] ^= 1 << bit
        broken += try_change(root, path, bytes(data), f"byte {at} bit {bit}", tally)
    return broken


def resize_files(root, tally):
    broken = []
    for path in shard_files(root):
        data = path.read_bytes()
        for label, changed in (("one byte less", data[:-1]), ("one byte more", data + b"\0"), ("empty", b"")):
            if changed != data:
                broken += try_change(root, path, changed, label, tally)
    return broken


@pytest.mark.parametrize("kind", DATASETS)
def test_some_rot_in_shards(dataset, tally, kind):
    figures = tally("rot in shards, a little")
    assert not flip_bits(dataset(kind), figures, 12)


@pytest.mark.deep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", DATASETS)
def test_rot_in_shards(dataset, tally, kind):
    figures = tally("rot in shards")
    assert not [*flip_bits(dataset(kind), figures, 1000), *resize_files(dataset(kind), figures)]


def lay_out_half_done(campaign, made):
    """What a run leaves that was killed before its last unit counted: a plan, receipts, hashes of documents."""
    half = campaign.root / "half-done"
    if not half.exists():
        run = campaign.run(made.job.argv(made.inputs, half))
        assert run.code == 0, run.err
        (half / "manifest.json").unlink()
        max(half.glob("receipts/*.json")).unlink()
    return half


def resume(argv):
    """The command in this process, which is several times as quick as one of its own."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            tokenmill.cli.main([str(word) for word in argv])
        except SystemExit as leave:
            code = leave.code
        except Exception:  # noqa: BLE001 - what Python itself would print
            code = 1
            traceback.print_exc()
    return Run(tuple(argv), code, hung=False, seconds=0.0, memory=0, out=out.getvalue(), err=err.getvalue())


def resume_from_rot(campaign, tally, most):
    """A plan, receipt or list of hashes that rotted between two runs: the second reports it, or writes the correct bytes."""
    made = campaign.prepared(JOBS["prepare-filters"])
    half, broken = lay_out_half_done(campaign, made), []
    files = [half / "plan.json", *sorted(half.glob("receipts/*.json")), *sorted(half.glob("duplicates/*"))]
    assert len(files) > 3, "there is neither a receipt nor a list of hashes to change"
    for path in files:
        old, chosen = path.read_bytes(), random.Random(path.name)
        for nth in spread(len(old), most):
            new = bytearray(old)
            new[nth - 1] ^= 1 << chosen.randrange(8)
            if is_same_value(old, bytes(new)):
                continue
            place = campaign.new_place()
            shutil.copytree(half, place / "out")
            (place / "out" / path.relative_to(half)).write_bytes(new)
            run = resume(made.job.argv(made.inputs, place / "out"))
            label = f"resume with {path.name} byte {nth - 1}: {last_words(run)}"
            broken += tally.add(label, made.judge(run, place))
            shutil.rmtree(place)
    return broken


def test_some_rot_before_a_resume(campaign, tally):
    assert not resume_from_rot(campaign, tally("rot before a resume, a little"), 3)


@pytest.mark.deep
@pytest.mark.timeout(14_400)
def test_a_plan_or_receipt_that_rotted_before_a_resume(campaign, tally):
    assert not resume_from_rot(campaign, tally("rot before a resume"), MOST)
