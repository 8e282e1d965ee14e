"""Every set of instructions gives the same pieces, ids and counts; `TOKENMILL_CPU` chooses one for a process."""

import json
import os
import subprocess
import sys

import pytest

from tokenmill import _core

CHILD = """
import hashlib, json, random
from tokenmill import _core, train_from_iterator

draw = random.Random(7)
letters = "aZéÉ中あ한א5٣ \\t\\n\\u3000!'/，\\u0301😀stlvre"
def text(size):
    return "".join(draw.choice(letters) * draw.choice([1, 1, 2, 40]) for _ in range(size))
texts = [text(draw.randrange(300)) for _ in range(400)] + ["a" * 5000, " " * 5000, "한" * 5000, text(5000)]
found = {"cpu": _core.cpu()[0]}
for family in ("gpt2", "cl100k", "o200k", "deepseek-v3"):
    tokenizer = train_from_iterator(texts, vocab_size=600, pattern=family, progress=False)
    batch = tokenizer.encode_batch(texts + texts[:50], threads=1)
    sums = [hashlib.sha256(array.tobytes()).hexdigest() for array in (batch.ids, batch.offsets)]
    found[family] = [tokenizer.fingerprint, *sums]
print(json.dumps(found))
"""


def run(code, cpu):
    environment = os.environ | {"TOKENMILL_CPU": cpu, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "always", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True)


def test_every_set_of_instructions_gives_the_same():
    best = json.loads(run(CHILD, "").stdout)
    name = best.pop("cpu")
    assert name in {"avx512", "avx2", "neon", "portable"}
    for setting in ("portable", "avx2", "avx512", "neon"):
        done = run(CHILD, setting)
        found = json.loads(done.stdout)
        # What this CPU lacks is said, and the best is used.
        assert (found.pop("cpu") == setting) != ("RuntimeWarning: TOKENMILL_CPU" in done.stderr)
        assert found == best, setting


@pytest.mark.parametrize("setting", ["avx3", "AVX2", "portable,avx2"])
def test_an_unknown_set_is_a_warning_that_names_the_known(setting):
    done = run("from tokenmill import _core; print(_core.cpu()[0])", setting)
    assert done.stdout.strip() == _core.cpu()[0]
    assert f'RuntimeWarning: TOKENMILL_CPU="{setting}" is not a set' in done.stderr
    assert "choose one of portable" in done.stderr
